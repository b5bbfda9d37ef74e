"""Two masters on PostgreSQL: one removes a lane at the very moment at which the other puts a task into it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.maintenance_store import LANE_FRESH_S
from crawlfleet.ports.task_store import Submission
from crawlfleet.store.engine.migrate import migrate_postgres
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from crawlfleet.store.tasks.lane_removal import LOCK_LANES, REMOVE_LANES
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.task_insert import add_tasks
from testkit.clock import FakeClock
from testkit.factories import Kit
from testkit.patience import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.postgres]

RARE = Lane.with_id("default", "rare", 5, Requirement("echo"))
BLOCKED = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query LIKE '%lane%'"
)


class Gate:
    """Holds a transaction open, without letting the server take it for silent."""

    def __init__(self) -> None:
        self.is_inside = asyncio.Event()
        self.may_leave = asyncio.Event()

    async def stand(self, tx: Tx) -> None:
        self.is_inside.set()
        while not self.may_leave.is_set():
            await tx.fetch("SELECT 1")
            await asyncio.sleep(0.01)


class Masters:
    def __init__(self, kit: Kit, leader: SqlStore, other: SqlStore, clock: FakeClock) -> None:
        self.kit = kit
        self.leader = leader
        self.other = other
        self.clock = clock

    async def until_blocked(self) -> None:
        """Until a transaction waits for a row of another one."""
        while not await self.kit.second.engine.read(lambda tx: tx.fetch(BLOCKED)):
            pass


@pytest.fixture
async def masters(postgres_dsn: str) -> AsyncIterator[Masters]:
    await migrate_postgres(postgres_dsn)
    clock = FakeClock()
    leader, other, second = [SqlStore(await PostgresEngine.connect(postgres_dsn), clock.monotonic) for _ in range(3)]
    kit = await Kit.open(leader, second)
    await other.ensure_lanes([RARE])
    await leader.remove_unused_lanes(await kit.term(), 1, [RARE.id])
    clock.advance(LANE_FRESH_S)
    async with asyncio.timeout(PATIENCE_S):
        yield Masters(kit, leader, other, clock)
    for store in (leader, other, second):
        await store.close()


async def test_a_lane_stays_when_the_removal_comes_while_a_task_is_added(masters: Masters) -> None:
    kit, gate, book = masters.kit, Gate(), LaneBook()
    task = kit.new_task(lane=RARE)

    async def add(tx: Tx) -> None:
        await add_tasks(tx, book, [Submission([task])], kit.now)
        await gate.stand(tx)

    async with asyncio.TaskGroup() as group:
        group.create_task(masters.other.engine.write(add))
        await gate.is_inside.wait()
        removing = group.create_task(masters.leader.remove_unused_lanes(await kit.term(), 2, [RARE.id]))
        await masters.until_blocked()
        gate.may_leave.set()
    assert removing.result() == 0
    assert await kit.status(task.id) is TaskStatus.PENDING


async def test_a_lane_comes_back_when_a_task_is_added_while_it_is_removed(masters: Masters) -> None:
    kit, gate = masters.kit, Gate()
    task = kit.new_task(lane=RARE)

    async def remove(tx: Tx) -> None:
        await tx.fetch(LOCK_LANES, [RARE.id])
        await tx.execute(REMOVE_LANES, [RARE.id])
        await gate.stand(tx)

    async with asyncio.TaskGroup() as group:
        group.create_task(masters.leader.engine.write(remove))
        await gate.is_inside.wait()
        group.create_task(masters.other.add_tasks([Submission([task])], kit.now))
        await masters.until_blocked()
        gate.may_leave.set()
    assert await kit.status(task.id) is TaskStatus.PENDING
    assert await SqlStore(kit.second.engine).load_lanes([RARE.id]) == [RARE]


async def test_masters_that_add_to_one_lane_do_not_wait_for_each_other(masters: Masters) -> None:
    kit, gate, book = masters.kit, Gate(), LaneBook()
    await masters.other.ensure_lanes([RARE])
    first, second = kit.new_task(lane=RARE), kit.new_task(lane=RARE)

    async def add(tx: Tx) -> None:
        await add_tasks(tx, book, [Submission([first])], kit.now)
        await gate.stand(tx)

    async with asyncio.TaskGroup() as group:
        group.create_task(masters.other.engine.write(add))
        await gate.is_inside.wait()
        await SqlStore(masters.leader.engine).add_tasks([Submission([second])], kit.now)
        gate.may_leave.set()
    assert await kit.status(first.id) is await kit.status(second.id) is TaskStatus.PENDING
