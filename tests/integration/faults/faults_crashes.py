"""Failpoints: a master that dies at a chosen call of a port, or in the middle of a transaction.

Nothing of a dead master goes on: no `except`, no `finally`, no answer. Its calls simply never return. What it had
committed by then is all that its successor finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.store import Store
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from testkit.patience import PATIENCE_S
from tests.integration.faults.faults_stores import WRITES, broker_between, store_between

T = TypeVar("T")


class Point(NamedTuple):
    """Before or after the so-many-th call, or after the so-many-th statement inside transactions."""

    call: int = 0
    is_after: bool = False
    statement: int = 0


NOWHERE = Point()


class Torn(Exception):
    """Breaks off a transaction, which is then undone as when its connection is gone."""


class Failpoints:
    """Between one master and its ports, once it is armed."""

    def __init__(self, point: Point) -> None:
        self.point = point
        self.is_armed = False
        self.calls: list[str] = []
        self.statements: list[str] = []
        self._died = asyncio.Event()
        self._hanging: list[asyncio.Future[None]] = []

    def ports(self, store: SqlStore, broker: MemoryBroker) -> tuple[Store, Broker]:
        torn = SqlStore(cast("QueryEngine", _TornEngine(store.engine, self)))
        return store_between(torn, self._around), broker_between(broker, self._around)

    async def run(self, act: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Whether the master died on the way."""
        self.is_armed = True
        acting, dying = asyncio.create_task(act()), asyncio.create_task(self._died.wait())
        await asyncio.wait({acting, dying}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        if not acting.done():
            assert dying.done(), f"stuck after {self.calls[-3:]}"
            return True
        self.is_armed = False
        dying.cancel()
        acting.result()
        return False

    def points(self, *, is_every_call: bool) -> Iterator[Point]:
        """Of a run to the end: both sides of each call, or of each that writes, and every statement."""
        for number, name in enumerate(self.calls, start=1):
            if is_every_call or name in WRITES:
                yield Point(number)
                yield Point(number, is_after=True)
        yield from (Point(statement=number) for number in range(1, len(self.statements) + 1))

    async def die(self) -> NoReturn:
        self._died.set()
        # Kept, so that what waits for it is kept too.
        self._hanging.append(asyncio.get_running_loop().create_future())
        await self._hanging[-1]
        raise AssertionError("a dead master went on")

    def note_statement(self, name: str) -> None:
        if self.is_armed:
            self.statements.append(name)
            if len(self.statements) == self.point.statement:
                raise Torn(name)

    async def _around(self, name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        if self._died.is_set():
            await self.die()
        if not self.is_armed:
            return await method(*args, **kwargs)
        self.calls.append(name)
        number = len(self.calls)
        if self.point == (number, False, 0):
            await self.die()
        answer = await method(*args, **kwargs)
        if self._died.is_set() or self.point == (number, True, 0):
            await self.die()
        return answer


class _TornEngine:
    def __init__(self, engine: QueryEngine, points: Failpoints) -> None:
        self._engine = engine
        self._points = points

    async def write(self, work: Callable[[Tx], Awaitable[T]], term: int | None = None) -> T:
        async def counted(tx: Tx) -> T:
            return await work(cast("Tx", _CountedTx(tx, self._points)))

        try:
            return await self._engine.write(counted, term)
        except Torn:
            return await self._points.die()

    async def read(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._engine.read(work)

    read_by_key = read

    def __getattr__(self, name: str) -> Any:
        """Every other way to read is the engine's own: only writes are torn."""
        return getattr(self._engine, name)


class _CountedTx:
    def __init__(self, tx: Tx, points: Failpoints) -> None:
        self._tx = tx
        self._points = points

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._tx, name)

        async def counted(*args: Any) -> Any:
            answer = await method(*args)
            self._points.note_statement(name)
            return answer

        return counted


async def bury(living: set[asyncio.Task[Any]]) -> None:
    """End what dead masters left hanging, once nobody looks any more."""
    dead = asyncio.all_tasks() - living
    for task in dead:
        task.cancel()
    if dead:
        await asyncio.wait(dead, timeout=PATIENCE_S)
