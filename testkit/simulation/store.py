"""The store as the simulation uses it: every commit is observed, and each master's calls can fail on the way.

A call takes a little time before it is served and a little before it is answered, so that the steps of different
masters interleave. Between the two lies the commit: failing before it is `StoreUnavailable`, after it
`OutcomeUnknown`, and a crash may hit either side.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from crawlfleet.errors import OutcomeUnknown, StoreUnavailable
from crawlfleet.model.event import EventBatch
from crawlfleet.store import row_codec
from crawlfleet.store.engine.sqlite.engine import InlineEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from testkit.processes import crash

T = TypeVar("T")
_READS = frozenset(
    {
        "read_leader",
        "live_tasks",
        "held_tasks",
        "placement_view",
        "load_deliveries",
        "ready_lanes",
        "ready_heads",
        "load_lanes",
        "due_tasks",
        "overdue_tasks",
        "paused_queues",
        "secret_hash",
        "open_leases",
        "load_nodes",
        "list_clusters",
        "events_after",
        "last_event",
        "task_totals",
        "count_rows",
        "load_tasks",
        "list_tasks",
        "task_executions",
        "awaited_parents",
        "dead_letters",
        "dead_letter_groups",
        "node_by_secret",
        "node_by_device",
        "token_by_secret",
        "list_tokens",
        "audit_page",
        "task_types",
        "cluster_config",
        "cluster_configs",
        "config_history",
        "stored_answer",
        "find_fact",
        "list_queues",
        "ready_ends",
        "ready_parts",
        "list_projects",
        "load_project",
        "project_uses",
        "held_in",
        "load_groups",
        "list_groups",
        "group_counts",
        "count_members",
        "list_members",
        "walk_members",
        "ended_members",
        "member_failures",
        "ended_runs",
        "task_contents",
        "task_parameters",
        "load_evidence",
        "failed_nodes",
        "flow_steps",
        "flow_tallies",
        "place_in_flow",
        "unrun_result",
        "find_schedule",
        "list_schedules",
        "list_ticks",
        "due_schedules",
        "next_due",
        "stopping_executions",
        "task_preemptions",
        "preemptions_since",
        "parked_tasks",
        "parked_times",
        "parked_for",
        "parked_in_vain",
        "day_uses",
        "parked_with_room",
        "lane_ids",
        "lanes_of_tasks",
    }
)


_REMEMBERED = frozenset({"load_lanes"})
"""Methods that are nearly always answered from the store's own cache: not worth a simulated round trip."""


class ObservedEngine(InlineEngine):
    """SQLite in memory, as the simulation tests order and not disks. Reports what each transaction wrote to the outbox,
    at the instant of its commit."""

    def __init__(self, template: Path, on_events: Callable[[list[EventBatch]], None]) -> None:
        super().__init__(Path(":memory:"), synchronous="OFF")
        with closing(sqlite3.connect(template)) as source:
            source.backup(self._connection)
        self._on_events = on_events
        self._written: list[bytes] = []
        self._connection.create_function("observe", 1, self._written.append)
        self._connection.execute(
            "CREATE TEMP TRIGGER observer AFTER INSERT ON outbox BEGIN SELECT observe(NEW.body); END"
        )

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        self._written.clear()
        result = await super().write(work, term)
        for body in self._written:
            self._on_events(row_codec.decode_events(body))
        return result

    def look(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Return rows as they are committed, for checks: not a call of any simulated process."""
        return self._connection.execute(sql, args).fetchall()


@dataclass(slots=True)
class StoreFaults:
    """The faults that may happen to the calls of one master."""

    unavailable: float = 0.0
    """Probability that a call fails before its commit."""
    unanswered: float = 0.0
    """Probability that a call is committed, but the caller gets `OutcomeUnknown`."""
    crash_in: int | None = None
    """Number of the call, counted from now, at which the master crashes; None for no crash."""
    crashes_after: bool = False
    """Whether the crash comes after the commit of its call rather than before."""


class FaultyStore:
    """The connection of one master to the shared store."""

    def __init__(self, store: SqlStore, rng: Random, on_crash: Callable[[], None]) -> None:
        self._store = store
        self._rng = rng
        self._on_crash = on_crash
        self.faults = StoreFaults()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not iscoroutinefunction(method) or name in _REMEMBERED:
            return method

        call = partial(self._call, name, method)
        # Looked up once per master: the wrapper then replaces the method.
        setattr(self, name, call)
        return call

    async def _call(self, name: str, method: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        rng, faults = self._rng, self.faults
        # Time passes on one side of the commit or on the other, or not at all: each timer costs the simulation.
        side = rng.random()
        if side < 0.2:
            await asyncio.sleep(side * 0.009)
        if faults.unavailable and rng.random() < faults.unavailable:
            raise StoreUnavailable("simulated: the store is away")
        crashes_before, crashes_after = self._crashes() if faults.crash_in is not None else (False, False)
        if crashes_before:
            await self._crash()
        result = await method(*args, **kwargs)
        if crashes_after:
            await self._crash()
        if name not in _READS and faults.unanswered and rng.random() < faults.unanswered:
            raise OutcomeUnknown("simulated: committed, not answered")
        if side > 0.85:
            await asyncio.sleep((side - 0.85) * 0.009)
        return result

    def _crashes(self) -> tuple[bool, bool]:
        """Return whether the crash hits this call, and on which side of its commit."""
        faults = self.faults
        assert faults.crash_in is not None
        faults.crash_in -= 1
        if faults.crash_in > 0:
            return False, False
        faults.crash_in = None
        return not faults.crashes_after, faults.crashes_after

    async def _crash(self) -> None:
        self._on_crash()
        await crash()
