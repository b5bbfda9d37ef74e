"""The leader makes room: once for each who waits, within its budget, and says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.control.loops.preempter import PreemptReport
from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.project import Quotas
from crawlfleet.model.status import ExecutionStatus, Recall, TaskStatus
from crawlfleet.wire.sync import OutcomeBody
from testkit.factories import Kit
from tests.unit.control.test_taking_effect import Installation, Played, begin
from tests.unit.store.store_kit import sqlite_kit

NOTHING = PreemptReport()


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


class Crowded:
    """A node full of tasks of low priority."""

    def __init__(self, one: Installation, node: Played, low: list[TaskId]) -> None:
        self.one = one
        self.node = node
        self.low = low
        self.store = one.store

    @classmethod
    async def of(cls, kit: Kit, slots: int = 3, **fields: Any) -> Crowded:
        one = await begin(kit)
        node = await one.online("n", slots)
        low = await one.submit(slots, **{"priority": 1, "preemptible": True, **fields})
        assert await one.dispatch() == slots
        return cls(one, node, low)

    async def urgent(self, count: int = 1, **fields: Any) -> list[TaskId]:
        """Of high priority; they have waited long enough to be helped."""
        tasks = await self.one.submit(count, **{"priority": 10, **fields})
        assert await self.one.dispatch() == 0
        await self.preempt()
        self.one.clock.advance(1.5)
        return tasks

    async def preempt(self) -> PreemptReport:
        term = self.one.master.lead.term
        assert term is not None
        return await self.one.master.preempter.run_term(term, self.one.clock.now())

    async def recalled(self) -> list[TaskId]:
        rows = (await self.store.held_tasks([self.node.id]))[self.node.id]
        return sorted(row.id for row in rows if row.recall is Recall.PREEMPT)

    async def confirm(self) -> None:
        """The node stops what it was asked to, and does not care for the rest."""
        down = await self.node.sync()
        assert {recall.reason for recall in down.recalls} == {int(Recall.PREEMPT)}
        stopped = [OutcomeBody(recall.task, recall.execution, int(End.STOPPED)) for recall in down.recalls]
        await self.node.sync(*stopped)

    async def why(self, task: TaskId) -> Any:
        return await self.one.master.why.explain_task(task)


async def test_a_task_of_high_priority_takes_the_place_of_a_low_one(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    (urgent,) = await crowd.urgent()
    assert await crowd.preempt() == PreemptReport(1, 1)
    (victim,) = await crowd.recalled()
    await crowd.confirm()
    assert await crowd.one.dispatch() == 1
    rows = await crowd.store.load_tasks([urgent, victim])
    assert (rows[urgent].status, rows[victim].status) == (TaskStatus.ASSIGNED, TaskStatus.PENDING)
    assert (rows[victim].retries, rows[victim].losses) == (0, 0)
    (ended,) = await crowd.store.task_executions(victim)
    assert ended.status is ExecutionStatus.PREEMPTED
    assert await crowd.preempt() == NOTHING


async def test_nobody_is_asked_twice_for_one_who_waits(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    await crowd.urgent()
    assert await crowd.preempt() == PreemptReport(1, 1)
    for _ in range(5):
        crowd.one.clock.advance(3)
        assert await crowd.preempt() == NOTHING
    assert len(await crowd.recalled()) == 1
    await crowd.urgent()
    await crowd.preempt()
    assert len(await crowd.recalled()) == 2, "a second one is another matter"


async def test_nobody_is_stopped_for_a_task_that_a_quota_holds_back(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    projects = crowd.one.master.projects
    await projects.change_project("shop", lambda have: replace(have, quotas=Quotas(running=0)))
    await crowd.urgent(2, project_id="shop")
    assert await crowd.preempt() == NOTHING
    await projects.change_project("shop", lambda have: replace(have, quotas=Quotas(running=1)))
    assert await crowd.preempt() == PreemptReport(1, 1)
    await crowd.confirm()
    assert await crowd.one.dispatch() == 1
    assert await crowd.preempt() == NOTHING


async def test_room_is_made_for_the_one_that_is_served_next(kit: Kit) -> None:
    crowd = await Crowded.of(kit, slots=1)
    await crowd.one.master.pause.set_order("default", is_lifo=True)
    first, last = await crowd.urgent(2)
    assert await crowd.preempt() == PreemptReport(1, 1)
    assert [len(await crowd.store.stopping_executions(task)) for task in (first, last)] == [0, 1]
    await crowd.confirm()
    assert await crowd.one.dispatch() == 1
    assert (await crowd.store.live_tasks([last]))[last].status is TaskStatus.ASSIGNED


async def test_a_new_leader_asks_nobody_twice_either(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    await crowd.urgent()
    await crowd.preempt()
    other = await begin(kit)
    crowd.one.clock.advance(10)
    other.clock.advance(20)
    await other.master.leader.run_once(other.clock.now())
    await other.dispatch()
    again = Crowded(other, crowd.node, crowd.low)
    await again.preempt()
    other.clock.advance(2)
    assert await again.preempt() == NOTHING
    assert len(await again.recalled()) == 1


async def test_each_victim_is_told_for_whom(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    urgent = await crowd.urgent(2)
    assert await crowd.preempt() == PreemptReport(2, 2)
    assert [len(await crowd.store.stopping_executions(task)) for task in urgent] == [1, 1]
    await crowd.one.master.relay.run_once(0)
    events = await crowd.store.events_after(0, 1_000)
    reasons = [event.data["reason"] for event in events if event.kind == "task.recalled"]
    assert sorted(reasons) == [f"makes room for {task_text(task)}" for task in urgent]


async def test_both_sides_are_told_why(kit: Kit) -> None:
    crowd = await Crowded.of(kit, slots=2)
    (urgent,) = await crowd.urgent()
    await crowd.preempt()
    (victim,) = await crowd.recalled()
    waits, goes = await crowd.why(urgent), await crowd.why(victim)
    assert (waits.data["cause"], waits.sentence) == ("making_room", "waits for 1 lower-priority task on node n to stop")
    assert goes.sentence == (
        f"node n was told to stop it because its place is needed for {task_text(urgent)}; "
        "waits until it has, or its lease ends"
    )
    await crowd.confirm()
    await crowd.one.dispatch()
    after = await crowd.why(victim)
    assert after.sentence == f"0 of 1 node: 1 full; it made room for {task_text(urgent)} (stopped once)"
    assert after.data["preempted"] == {"times": 1, "for": task_text(urgent)}


async def test_it_waits_a_moment_for_room_to_come_by_itself(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    await crowd.one.submit(priority=10)
    assert await crowd.preempt() == NOTHING
    crowd.one.clock.advance(0.5)
    assert await crowd.preempt() == NOTHING
    crowd.one.clock.advance(0.6)
    assert await crowd.preempt() == PreemptReport(1, 1)


@pytest.mark.parametrize(
    ("fields", "urgent", "settings"),
    [
        ({"preemptible": False}, {}, {}),
        ({"priority": 9}, {}, {}),
        ({}, {"priority": 2}, {}),
        ({}, {"priority": 5}, {"preemption_gap": 5}),
        ({}, {}, {"preemption": False}),
        ({}, {}, {"preemptions_per_minute": 0}),
        ({}, {"cluster": "eu"}, {}),
    ],
    ids=["not preemptible", "as high", "not high", "gap", "off", "no budget", "elsewhere"],
)
async def test_nobody_is_stopped(kit: Kit, fields: Any, urgent: Any, settings: Any) -> None:
    crowd = await Crowded.of(kit, **fields)
    await crowd.one.configure(**settings)
    await crowd.urgent(**urgent)
    assert await crowd.preempt() == NOTHING
    assert await crowd.recalled() == []


async def test_nobody_is_stopped_for_a_paused_queue(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    await crowd.urgent(queue="night")
    await crowd.store.set_queue_paused("night", True, kit.now)
    assert await crowd.preempt() == NOTHING
    await crowd.store.set_queue_paused("night", False, kit.now)
    assert await crowd.preempt() == PreemptReport(1, 1)


async def test_nobody_is_stopped_where_there_is_room(kit: Kit) -> None:
    crowd = await Crowded.of(kit)
    await crowd.urgent()
    await crowd.one.online("another")
    assert await crowd.preempt() == NOTHING
    assert await crowd.one.dispatch() == 1


async def test_a_storm_is_held_back_by_the_budget(kit: Kit) -> None:
    crowd = await Crowded.of(kit, slots=8)
    await crowd.one.configure(preemptions_per_minute=3)
    await crowd.urgent(8)
    assert await crowd.preempt() == PreemptReport(3, 3)
    await crowd.confirm()
    assert await crowd.one.dispatch() == 3
    crowd.one.clock.advance(30)
    assert await crowd.preempt() == NOTHING
    crowd.one.clock.advance(31)
    await crowd.node.sync()
    assert await crowd.preempt() == PreemptReport(3, 3)
    crowd.one.clock.advance(61)
    assert await crowd.preempt() == NOTHING, "as many are in flight"


async def test_one_task_is_stopped_three_times_at_most(kit: Kit) -> None:
    crowd = await Crowded.of(kit, slots=1)
    (low,) = crowd.low
    for round_ in range(4):
        (urgent,) = await crowd.urgent()
        assert (await crowd.preempt() != NOTHING) == (round_ < 3)
        if round_ == 3:
            break
        await crowd.confirm()
        assert await crowd.one.dispatch() == 1
        (row,) = (await crowd.store.held_tasks([crowd.node.id]))[crowd.node.id]
        assert row.id == urgent
        await crowd.node.sync(OutcomeBody(urgent, row.execution, int(End.COMPLETED)))
        assert await crowd.one.dispatch() == 1
    row = (await crowd.store.live_tasks([low]))[low]
    assert (row.status, row.retries) == (TaskStatus.ASSIGNED, 0)


async def test_what_is_preemptible_is_kept_and_shown(kit: Kit) -> None:
    crowd = await Crowded.of(kit, slots=1)
    (lane,) = await crowd.store.load_lanes([(await crowd.store.load_tasks(crowd.low))[crowd.low[0]].lane])
    assert lane.requirement.preemptible


async def test_a_task_of_long_ago_gives_way_too_and_does_not_get_its_place_back_first(kit: Kit) -> None:
    """By age alone it would rank as high as the urgent one, and as the older one go before it."""
    crowd = await Crowded.of(kit, slots=1)
    crowd.one.clock.advance(3_600)
    await crowd.node.sync()
    (urgent,) = await crowd.urgent()
    assert await crowd.preempt() == PreemptReport(1, 1)
    await crowd.confirm()
    assert await crowd.one.dispatch() == 1
    (row,) = (await crowd.store.held_tasks([crowd.node.id]))[crowd.node.id]
    assert row.id == urgent
