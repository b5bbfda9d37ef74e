"""A cancel that races: with dispatch, with completion, with a restart. One final state, and nothing starts after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.ports.task_store import Applied
from testkit import history as past
from tests.integration.faults.faults_kit import Fleet, PlayedNode
from tests.integration.faults.faults_stores import broker_between, store_between

pytestmark = pytest.mark.integration

ROUNDS = 8
Call = Callable[[], Coroutine[Any, Any, Any]]
SEEDS = pytest.mark.parametrize("seed", range(2))


class Steps:
    """Counts the calls of a master to its ports, so that others can come in after so many."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._count = 0
        self._waiting: list[tuple[int, asyncio.Event]] = []

    async def __call__(self, name: str, method: Callable[..., Awaitable[Any]], args: Any, kwargs: Any) -> Any:
        self._count += 1
        for at, event in self._waiting:
            if self._count >= at:
                event.set()
        return await method(*args, **kwargs)

    async def race(self, one: Call, other: Call, most: int) -> list[Any]:
        """The first goes; the second comes in after up to so many steps of it, or when it is over."""
        event = asyncio.Event()
        self._waiting = [(self._count + self.rng.randint(0, most), event)]
        first = asyncio.create_task(one())
        first.add_done_callback(lambda _: event.set())
        if self.rng.random() < 0.8:
            await event.wait()
        return [await other(), await first]


@pytest.fixture
async def steps(fleet: Fleet, seed: int) -> Steps:
    steps = Steps(seed)
    await fleet.start(store_between(fleet.store, steps), broker_between(fleet.new_broker(), steps))
    return steps


async def cancel(fleet: Fleet, tasks: Sequence[TaskId]) -> Applied:
    applied = await fleet.master.task_changes.cancel_tasks(tasks)
    for task, status in applied.after.items():
        is_final = status is TaskStatus.CANCELLED
        fleet.history.add(past.CancelAnswered(fleet.history.now, task, 1, is_final))
    return applied


async def held(fleet: Fleet, node: PlayedNode, count: int) -> list[TaskId]:
    tasks = await fleet.tasks(count, retry={"base_delay_s": 0.0})
    await fleet.dispatch()
    await node.sync()
    assert sorted(one.task for one in node.held.values()) == sorted(tasks)
    return tasks


@SEEDS
async def test_a_cancel_that_races_with_dispatch_and_delivery(fleet: Fleet, steps: Steps) -> None:
    node, seen = await fleet.node(slots=4), set[TaskStatus]()

    async def dispatch_and_deliver() -> None:
        await fleet.dispatch()
        await node.sync()

    for _ in range(2 * ROUNDS):
        tasks = await fleet.tasks(4)
        applied, _ = await steps.race(dispatch_and_deliver, partial(cancel, fleet, tasks), most=24)
        await fleet.dispatch()
        for task in tasks:
            seen.add(applied.after[task])
            if applied.after[task] is TaskStatus.CANCELLED:
                assert task not in {one.task for one in node.held.values()}, "delivered after its cancel was final"
                assert await fleet.store.task_executions(task) == []
        await node.sync()
        await node.sync()
        assert {await fleet.status(task) for task in tasks} == {TaskStatus.CANCELLED}
        assert not node.held
    assert seen == {TaskStatus.CANCELLED, TaskStatus.ASSIGNED}, "the race was always won by the same side"
    await fleet.judge()


@SEEDS
@pytest.mark.parametrize("end", [End.COMPLETED, End.FAILED, End.RETURNED], ids=lambda end: end.name)
async def test_a_cancel_that_races_with_an_outcome(fleet: Fleet, steps: Steps, end: End) -> None:
    node = await fleet.node(slots=6)
    for _ in range(ROUNDS // 2):
        tasks = await held(fleet, node, 6)
        for execution in list(node.held):
            node.end(execution, end, ErrorClass.NETWORK if end is End.FAILED else None)
        applied, _ = await steps.race(node.sync, partial(cancel, fleet, tasks), most=5)
        await fleet.settle()
        for task in tasks:
            status = await fleet.status(task)
            if end is not End.COMPLETED:
                assert status is TaskStatus.CANCELLED
            elif task in applied.refused:
                assert applied.refused[task].code is Code.ALREADY_FINAL
                assert status is TaskStatus.COMPLETED
            else:
                # It was asked to stop and had already completed: what is complete stays complete.
                assert applied.after[task].is_held
                assert status is TaskStatus.COMPLETED
            assert len(await fleet.store.task_executions(task)) == 1
    await fleet.judge()


@SEEDS
async def test_a_cancel_that_races_with_a_restart_of_its_node(fleet: Fleet, steps: Steps) -> None:
    node = await fleet.node(slots=4)
    for _ in range(ROUNDS):
        tasks = await held(fleet, node, 4)
        await steps.race(node.restart, partial(cancel, fleet, tasks), most=6)
        assert {await fleet.status(task) for task in tasks} == {TaskStatus.CANCELLED}
        assert await fleet.held_by(node) == []
        await node.sync()
    await fleet.judge()


@SEEDS
async def test_a_retry_that_races_with_another_opens_one_round(fleet: Fleet, steps: Steps) -> None:
    node = await fleet.node(slots=2)
    for _ in range(ROUNDS // 2):
        tasks = await held(fleet, node, 2)
        for execution in list(node.held):
            node.end(execution, End.FAILED, ErrorClass.INPUT)
        await node.sync()
        retry = partial(fleet.master.task_changes.retry_tasks, tasks)
        answers = await steps.race(retry, retry, most=2)
        for task in tasks:
            assert [task in applied.after for applied in answers].count(True) == 1
            assert (await fleet.record(task)).round == 2
        await fleet.settle()
    await fleet.judge()


async def test_a_recalled_task_is_final_only_when_its_node_has_confirmed(fleet: Fleet) -> None:
    node = await fleet.node()
    (task,) = await held(fleet, node, 1)
    (execution,) = node.held
    applied = await cancel(fleet, [task])
    assert applied.after == {task: TaskStatus.ASSIGNED}
    for second in range(60):
        fleet.clock.advance(1)
        if second % 3 == 0:
            # It hears of the recall and takes its time.
            down = await fleet.master.sync.sync(node.next_up())
            assert [(one.execution, one.reason) for one in down.recalls] == [(execution, Recall.CANCEL)]
        await fleet.master.reaper.run_once(fleet.clock.now())
        assert await fleet.status(task) is TaskStatus.ASSIGNED
    assert "was told to stop it because it was cancelled" in (await fleet.master.why.explain_task(task)).sentence
    node.end(execution, End.STOPPED)
    await node.sync()
    assert await fleet.status(task) is TaskStatus.CANCELLED
    assert [one.status for one in await fleet.store.task_executions(task)] == [ExecutionStatus.CANCELLED]
    await fleet.judge()


async def test_a_recalled_task_is_final_when_the_lease_of_its_node_has_ended(fleet: Fleet) -> None:
    node = await fleet.node()
    (task,) = await held(fleet, node, 1)
    await cancel(fleet, [task])
    node.drop_held()
    statuses = []
    for _ in range(12):
        fleet.clock.advance(1)
        await fleet.master.reaper.run_once(fleet.clock.now())
        statuses.append(await fleet.status(task))
    assert statuses[:8] == [TaskStatus.ASSIGNED] * 8
    assert statuses[-1] is TaskStatus.CANCELLED
    await fleet.judge()


async def test_a_task_cancelled_on_its_way_to_the_node_is_never_delivered(fleet: Fleet) -> None:
    node = await fleet.node()
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    applied = await cancel(fleet, [task])
    assert applied.after == {task: TaskStatus.ASSIGNED}
    down = await node.sync()
    assert down.assignments == []
    assert [one.task for one in down.recalls] == [task]
    await node.sync()
    assert await fleet.status(task) is TaskStatus.CANCELLED
    await fleet.judge()


async def test_cancelled_tasks_at_the_head_of_a_lane_do_not_hold_up_those_behind_them(fleet: Fleet) -> None:
    node = await fleet.node(slots=2)
    await fleet.dispatch()
    gone = await fleet.tasks(30)
    await cancel(fleet, gone)
    tasks = await fleet.tasks(2)
    await fleet.dispatch()
    assert sorted(row.id for row in await fleet.held_by(node)) == tasks
