"""For the fault tests: both stores, empty and quick, and ports that fail on the way."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from random import Random
from typing import Any, cast

import asyncpg

from crawlfleet.errors import OutcomeUnknown
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.store import Store
from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_postgres
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.store import SqlStore

WRITES = frozenset(
    {
        "ensure_lanes",
        "add_tasks",
        "assign_tasks",
        "complete_executions",
        "change_tasks",
        "reopen_tasks",
        "drop_tasks",
        "set_queue_paused",
        "register_node",
        "open_session",
        "renew_leases",
        "end_session",
        "set_maintenance",
        "set_slots",
        "set_health",
        "add_heartbeats",
        "unregister_node",
        "put_cluster",
        "campaign",
        "record_beat",
        "resign",
        "register_master",
        "relay_events",
        "record_events",
        "fold_counters",
        "prune_rows",
        "settle_groups",
        "close_group",
        "remove_group",
        "add_flow",
        "resume_flow",
        "add_schedule",
        "change_schedule",
        "remove_schedule",
        "fire_schedules",
        "run_schedule",
        "preempt_executions",
        "scale_slots",
        "set_queue_order",
        "change_project",
        "drop_project",
        "assign_by_hand",
        "exchange_batches",
        "take_id_slot",
        "keep_id_slot",
        "drop_cluster",
        "remove_unused_lanes",
    }
)


_NOT_WAITING = """DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
END $$"""


# -- stores


class Stores:
    """One backend. Durability is not waited for, unless a test is about it."""

    def __init__(
        self,
        open_engine: Callable[[], Awaitable[QueryEngine]],
        empty: Callable[[], Awaitable[None]],
        *,
        is_emptied_in_place: bool,
    ) -> None:
        self._open_engine = open_engine
        self._empty = empty
        self.is_quick = not is_emptied_in_place
        """A file that is copied, and not a server's tables that have to be emptied."""
        self._opened: list[QueryEngine] = []

    async def fresh(self) -> SqlStore:
        """An empty store; whatever was opened before is over."""
        if self.is_quick:
            await self.close()
        await self._empty()
        return SqlStore(self._opened[0]) if self._opened else await self.another()

    async def another(self) -> SqlStore:
        """One more way to the same database."""
        engine = await self._open_engine()
        self._opened.append(engine)
        return SqlStore(engine)

    async def close(self) -> None:
        while self._opened:
            await self._opened.pop().close()


class PostgresTemplate:
    """One database for many tests, emptied before each, in one call: far quicker than a new one."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        asyncio.run(self._prepare())

    async def _prepare(self) -> None:
        await migrate_postgres(self.dsn)
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(_NOT_WAITING)
            steps = []
            for name in schema.metadata.tables:
                # What the migrations themselves put into the tables stays.
                await connection.execute(f"CREATE TABLE seed_{name} AS TABLE {name}")
                steps.append(f"DELETE FROM {name}; INSERT INTO {name} TABLE seed_{name};")
            body = f"BEGIN {' '.join(steps)} END"
            await connection.execute(f"CREATE FUNCTION empty_all() RETURNS void LANGUAGE plpgsql AS $${body}$$")
        finally:
            await connection.close()

    async def empty(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute("SELECT empty_all()")
        finally:
            await connection.close()


def sqlite_stores(folder: Path, template: Path, synchronous: str = "OFF") -> Stores:
    numbers = itertools.count(1)
    path = folder

    async def empty() -> None:
        nonlocal path
        path = folder / f"fleet-{next(numbers)}.sqlite3"
        shutil.copy(template, path)

    async def open_engine() -> QueryEngine:
        return SqliteEngine(path, synchronous=synchronous)

    return Stores(open_engine, empty, is_emptied_in_place=False)


# -- ports that fail

Around = Callable[[str, Callable[..., Awaitable[Any]], tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
"""What stands between a master and one of its ports: the name of the call, the call, its arguments."""


class Between:
    """A port with somebody in between."""

    def __init__(self, port: object, around: Around) -> None:
        self._port = port
        self._around = around

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._around(name, method, args, kwargs)

        return call


def store_between(store: Store, around: Around) -> Store:
    return cast("Store", Between(store, around))


def broker_between(broker: Broker, around: Around) -> Broker:
    between = Between(broker, around)
    for part in ("ready_index", "signals", "freed_slots", "events", "measurements"):
        setattr(between, part, Between(getattr(broker, part), around))
    return cast("Broker", between)


class Unanswered:
    """Some writes are committed, and the caller is told that nobody knows."""

    def __init__(self, share: float, seed: int = 1) -> None:
        self.share = share
        self.hits = 0
        self._rng = Random(seed)

    async def __call__(self, name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        answer = await method(*args, **kwargs)
        if name in WRITES and self._rng.random() < self.share:
            self.hits += 1
            raise OutcomeUnknown(f"{name} was committed and not answered")
        return answer


class UnansweredOnce:
    """The next write of this name is committed and not answered."""

    def __init__(self, *names: str) -> None:
        self.left = list(names)

    async def __call__(self, name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        answer = await method(*args, **kwargs)
        if name in self.left:
            self.left.remove(name)
            raise OutcomeUnknown(f"{name} was committed and not answered")
        return answer
