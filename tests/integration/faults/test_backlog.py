"""A long backlog, then nodes arrive: none is missed, memory stays bounded, and what matters more goes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from crawlfleet.broker.memory.ready import MemoryReadyIndex
from crawlfleet.model.execution import End, Outcome
from crawlfleet.model.ids import TaskId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.task_store import Applied
from crawlfleet.store.store import SqlStore
from tests.integration.faults.faults_kit import Fleet, accepted_ids, echo
from tests.integration.faults.faults_stores import Stores, store_between

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NODES, SLOTS = 10, 700


class Placements:
    """Notes what the store confirmed as assigned, in order."""

    def __init__(self) -> None:
        self.tasks: list[TaskId] = []

    async def __call__(self, name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        answer = await method(*args, **kwargs)
        if name == "assign_tasks":
            assert isinstance(answer, Applied)
            self.tasks.extend(answer.after)
        return answer


class Backlog:
    def __init__(self, store: SqlStore, total: int, lanes: int, window: int) -> None:
        self.fleet = Fleet(store, window=window)
        self.placements = Placements()
        self.index = MemoryReadyIndex(window, lanes * window, self.fleet.clock.monotonic)
        self.lane_of: dict[TaskId, int] = {}
        self.total, self.lanes, self.window = total, lanes, window
        self.batch = min(5_000, total // lanes)

    async def submit(self) -> None:
        broker = self.fleet.new_broker()
        broker.ready_index = self.index
        await self.fleet.start(store_between(self.fleet.store, self.placements), broker)
        for number in range(self.total // self.batch):
            bodies = [echo(project_id=f"project {number % self.lanes}")] * self.batch
            tasks = accepted_ids(await self.fleet.master.submit.submit_tasks(bodies))
            self.lane_of |= dict.fromkeys(tasks, number % self.lanes)
            self.assert_bounded()

    async def finish_all(self) -> int:
        """Play all nodes at once: everything they hold is completed."""
        held = await self.fleet.store.held_tasks([node.id for node in self.fleet.nodes])
        done = [Outcome(row.node, row.id, row.execution, End.COMPLETED) for rows in held.values() for row in rows]
        answers = await self.fleet.master.finish.finish_outcomes(done)
        assert set(answers) <= {TaskStatus.COMPLETED}
        return len(done)

    def assert_bounded(self) -> None:
        for lane in self.index._lanes.values():
            assert len(lane.window) <= self.window
            assert len(lane.beyond) <= self.window
        assert sum(len(lane.window) for lane in self.index._lanes.values()) <= self.lanes * self.window


@pytest.mark.parametrize(("lanes", "window"), [(1, 600), (4, 2_000)])
async def test_a_long_backlog_is_worked_off_without_a_miss(stores: Stores, lanes: int, window: int) -> None:
    total = 100_000 if stores.is_quick and lanes > 1 else 20_000
    backlog = Backlog(await stores.fresh(), total, lanes, window)
    fleet, placements = backlog.fleet, backlog.placements
    await backlog.submit()
    assert await fleet.store.task_totals() == {TaskStatus.PENDING: backlog.total}
    await fleet.dispatch()
    assert placements.tasks == []
    for _ in range(NODES):
        await fleet.node(slots=SLOTS)

    rounds = 0
    while len(placements.tasks) < backlog.total:
        before = len(placements.tasks)
        await fleet.dispatch()
        backlog.assert_bounded()
        # While there is more, no slot is left free at the end of the leader's turn.
        assert len(placements.tasks) == min(before + NODES * SLOTS, backlog.total)
        await backlog.finish_all()
        rounds += 1
    assert len(placements.tasks) == len(set(placements.tasks))
    assert set(placements.tasks) == backlog.lane_of.keys()
    assert await fleet.store.task_totals() == await fleet.store.count_rows() == {TaskStatus.COMPLETED: backlog.total}
    assert rounds == -(-backlog.total // (NODES * SLOTS))
    for lane in range(lanes):
        served = [task for task in placements.tasks if backlog.lane_of[task] == lane]
        assert served == sorted(served), "a lane was not served in its order"


async def test_lanes_of_one_rank_take_turns(fleet: Fleet) -> None:
    await fleet.node(slots=600)
    early = await fleet.tasks(1, project_id="many")
    few = await fleet.tasks(10, project_id="few")
    await fleet.tasks(1_000, project_id="many")
    await fleet.dispatch()
    assert await fleet.status(early[0]) is TaskStatus.ASSIGNED
    assert {await fleet.status(task) for task in few} == {TaskStatus.ASSIGNED}


async def test_what_matters_more_overtakes_a_long_backlog(stores: Stores) -> None:
    backlog = Backlog(await stores.fresh(), 20_000, lanes=4, window=2_000)
    fleet, placements = backlog.fleet, backlog.placements
    await backlog.submit()
    await fleet.node(slots=SLOTS)
    await fleet.dispatch()
    (urgent,) = await fleet.tasks(priority=10)
    assert await fleet.status(urgent) is TaskStatus.PENDING
    await backlog.finish_all()
    before = len(placements.tasks)
    await fleet.dispatch()
    assert placements.tasks[before] == urgent
    more = await fleet.tasks(40, priority=10)
    (middling,) = await fleet.tasks(priority=7)
    await backlog.finish_all()
    before = len(placements.tasks)
    await fleet.dispatch()
    assert placements.tasks[before : before + 41] == [*more, middling]
