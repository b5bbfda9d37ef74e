"""People who look things up, many at once and for long: placement, leases and reaping go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawlfleet.errors import ReadTooLong
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.schedule_store import ScheduleFilter
from crawlfleet.ports.task_store import TaskFilter
from crawlfleet.store.engine.migrate import migrate_postgres, migrate_sqlite
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import BROWSERS, QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from tests.integration.faults.faults_kit import Fleet

pytestmark = pytest.mark.integration

FOUR = 4
GENEROUS_S = 60
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"


@asynccontextmanager
async def readers_held(engine: QueryEngine, count: int = BROWSERS) -> AsyncIterator[None]:
    """So many reads of people are under way, and stay so."""
    is_threaded = isinstance(engine, SqliteEngine)
    loop = asyncio.get_running_loop()
    begun = asyncio.Semaphore(0)
    gate, thread_gate = asyncio.Event(), threading.Event()

    async def hold(tx: Tx) -> None:
        await tx.fetch("SELECT 1")
        loop.call_soon_threadsafe(begun.release)
        if is_threaded:
            thread_gate.wait(GENEROUS_S)
        else:
            await gate.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(engine.browse_rows(hold))
        try:
            for _ in range(min(count, BROWSERS)):
                await asyncio.wait_for(begun.acquire(), GENEROUS_S)
            yield
        finally:
            gate.set()
            thread_gate.set()


async def test_the_leader_and_the_nodes_go_on_while_people_read(fleet: Fleet) -> None:
    node = await fleet.node()
    silent = await fleet.node(lease_ms=3_000)
    async with asyncio.timeout(GENEROUS_S), readers_held(fleet.store.engine, FOUR):
        looking = asyncio.create_task(fleet.store.find_tasks(TaskFilter(), 100, text="example"))
        (task,) = await fleet.tasks(1)
        await fleet.dispatch()
        assert (await fleet.store.live_tasks([task]))[task].status is TaskStatus.ASSIGNED
        ended = 0
        for _ in range(12):
            fleet.clock.advance(1.0)
            await node.sync()
            ended += (await fleet.master.reaper.run_term(await fleet.lead(), fleet.clock.now())).sessions
        assert ended == 1, silent
        await fleet.settle()
        await fleet.master.tallier.run_once(fleet.clock.now())
        await fleet.master.relay.run_once(fleet.clock.now())
        assert not looking.done()
    assert [one.id for one in (await looking).tasks] == []
    assert [one.id for one in (await fleet.store.find_tasks(TaskFilter(), 100)).tasks] == [task]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def hasty(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store that gives people half a second."""
    engine: QueryEngine
    if request.param == "sqlite":
        migrate_sqlite(tmp_path / "fleet.sqlite3")
        engine = SqliteEngine(tmp_path / "fleet.sqlite3", synchronous="OFF", browse_s=0.5)
    else:
        dsn = request.getfixturevalue("postgres_dsn")
        await asyncio.wait_for(migrate_postgres(dsn), GENEROUS_S)
        engine = await PostgresEngine.connect(dsn, browse_s=0.5)
    yield SqlStore(engine)
    await engine.close()


async def test_a_read_of_people_ends_at_its_deadline_and_the_next_one_is_served(hasty: SqlStore) -> None:
    async with asyncio.timeout(GENEROUS_S):
        reads = [hasty.engine.browse_rows(lambda tx: tx.fetch(ENDLESS)) for _ in range(BROWSERS)]
        outcomes = await asyncio.gather(*reads, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [ReadTooLong] * BROWSERS
        assert await hasty.list_schedules(ScheduleFilter(), 10) == []


async def test_a_read_that_waits_too_long_for_its_turn_is_not_begun(hasty: SqlStore) -> None:
    async with asyncio.timeout(GENEROUS_S):
        if isinstance(hasty.engine, SqliteEngine):
            async with readers_held(hasty.engine):
                waiting = asyncio.create_task(hasty.find_tasks(TaskFilter(), 10))
                # It has begun to wait before the time is counted that is longer than it may wait.
                await asyncio.sleep(0)
                await asyncio.sleep(0.7)
            with pytest.raises(ReadTooLong):
                await waiting
        else:
            reads = [hasty.engine.browse_rows(lambda tx: tx.fetch(ENDLESS)) for _ in range(3 * BROWSERS)]
            outcomes = await asyncio.gather(*reads, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {ReadTooLong}
        assert (await hasty.find_tasks(TaskFilter(), 10)).tasks == []


async def test_a_caller_that_leaves_ends_its_read(hasty: SqlStore) -> None:
    async with asyncio.timeout(GENEROUS_S):
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def endless(tx: Tx) -> None:
            loop.call_soon_threadsafe(begun.set)
            await tx.fetch(ENDLESS)

        for _ in range(2 * BROWSERS):
            begun.clear()
            reading = asyncio.create_task(hasty.engine.browse_rows(endless))
            await begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
        assert await hasty.list_schedules(ScheduleFilter(), 10) == []
