"""A crash between every two steps of every verb: its successor finishes what was begun, once."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.schedule import Overlap
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus
from testkit import history as past
from tests.integration.faults.faults_crashes import NOWHERE, Failpoints, Point, bury
from tests.integration.faults.faults_kit import Fleet, PlayedNode, accepted_ids, echo
from tests.integration.faults.faults_schedules import check_ticks, fire, fired_ticks, new_schedule
from tests.integration.faults.faults_stores import Stores

pytestmark = pytest.mark.integration

_S = TaskStatus


class Scenario(ABC):
    """What happens under the master that dies, and again under its successor: whoever was not answered asks again."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.tasks: list[TaskId] = []

    @abstractmethod
    async def prepare(self) -> None: ...

    @abstractmethod
    async def act(self) -> None: ...

    @abstractmethod
    async def expect(self) -> None:
        """Once things are quiet."""

    async def act_again(self) -> None:
        await self.act()

    async def statuses(self) -> list[TaskStatus]:
        return [await self.fleet.status(task) for task in self.tasks]

    async def ends(self, task: TaskId) -> list[ExecutionStatus | None]:
        return [one.status for one in await self.fleet.store.task_executions(task)]

    async def held_on_a_node(self, count: int, lease_ms: int = 9_000) -> PlayedNode:
        node = await self.fleet.node(lease_ms=lease_ms)
        self.tasks = await self.fleet.tasks(count)
        await self.fleet.dispatch()
        await node.sync()
        return node

    def end(self, node: PlayedNode, task: TaskId, end: End, error: ErrorClass | None = None) -> None:
        (execution,) = [execution for execution, one in node.held.items() if one.task == task]
        node.end(execution, end, error)


class SubmitUnderAKey(Scenario):
    async def prepare(self) -> None:
        await self.fleet.node()
        (self.parent,) = await self.fleet.tasks()

    async def act(self) -> None:
        later = to_text(self.fleet.clock.now() + 60_000)
        self.later = getattr(self, "later", later)
        bodies = [echo(), echo(depends_on=[task_text(self.parent)]), echo(run_at=self.later, priority=9)]
        answer = await self.fleet.submit(*bodies, batch="b", is_atomic=True, key="k")
        self.tasks = accepted_ids(answer)

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 3
        assert await self.fleet.store.count_rows() == {_S.COMPLETED: 4}


class SubmitOnce(SubmitUnderAKey):
    """Nobody asks again: it is absent or whole."""

    async def act(self) -> None:
        bodies = [echo(), echo(depends_on=[task_text(self.parent)]), echo(priority=2)]
        self.tasks = accepted_ids(await self.fleet.submit(*bodies, batch="b", is_atomic=True))

    async def act_again(self) -> None:
        pass

    async def expect(self) -> None:
        rows = await self.fleet.store.count_rows()
        assert rows in ([{_S.COMPLETED: 4}] if self.tasks else [{_S.COMPLETED: 1}, {_S.COMPLETED: 4}])


class Dispatch(Scenario):
    async def prepare(self) -> None:
        for _ in range(2):
            await self.fleet.node(slots=2)
        self.tasks = [*await self.fleet.tasks(3), *await self.fleet.tasks(2, priority=9)]

    async def act(self) -> None:
        await self.fleet.dispatch()
        for node in self.fleet.nodes:
            await node.sync()

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 5
        assert [await self.ends(task) for task in self.tasks] == [[ExecutionStatus.COMPLETED]] * 5


class Finish(Scenario):
    async def prepare(self) -> None:
        self.node = node = await self.held_on_a_node(5)
        completed, failed, refused, returned, started = self.tasks
        self.end(node, completed, End.COMPLETED)
        self.end(node, failed, End.FAILED, ErrorClass.NETWORK)
        self.end(node, refused, End.FAILED, ErrorClass.INPUT)
        self.end(node, returned, End.RETURNED)
        node.start(next(execution for execution, one in node.held.items() if one.task == started))

    async def act(self) -> None:
        await self.node.sync()

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED, _S.COMPLETED, _S.FAILED, _S.COMPLETED, _S.COMPLETED]
        _, failed, refused, returned, _ = self.tasks
        assert await self.ends(failed) == [ExecutionStatus.FAILED, ExecutionStatus.COMPLETED]
        assert (await self.fleet.record(failed)).retries == 1
        assert await self.ends(refused) == [ExecutionStatus.FAILED]
        assert [letter.task for letter in await self.fleet.store.dead_letters(10)] == [refused]
        assert await self.ends(returned) == [ExecutionStatus.RETURNED, ExecutionStatus.COMPLETED]


class RetryByAPerson(Scenario):
    async def prepare(self) -> None:
        node = await self.held_on_a_node(2)
        for task in self.tasks:
            self.end(node, task, End.FAILED, ErrorClass.INPUT)
        await node.sync()

    async def act(self) -> None:
        # A person who was not answered looks before asking again.
        ended = [task for task in self.tasks if (await self.fleet.record(task)).round == 1]
        applied = await self.fleet.master.task_changes.retry_tasks(ended)
        assert not applied.refused
        for task in applied.after:
            self.fleet.history.add(past.RetryAnswered(self.fleet.history.now, task, 2))

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 2
        for task in self.tasks:
            assert (await self.fleet.record(task)).round == 2
            assert await self.ends(task) == [ExecutionStatus.FAILED, ExecutionStatus.COMPLETED]
        assert await self.fleet.store.dead_letters(10) == []


class ReleaseDependants(Scenario):
    async def prepare(self) -> None:
        self.node = node = await self.held_on_a_node(3)
        good, bad, other = self.tasks
        waiting = [[good], [good, other], [good, bad], [bad]]
        for parents in waiting:
            self.tasks += await self.fleet.tasks(depends_on=[task_text(parent) for parent in parents])
        self.tasks += await self.fleet.tasks(depends_on=[task_text(self.tasks[-1])])
        self.end(node, good, End.COMPLETED)
        self.end(node, bad, End.FAILED, ErrorClass.INPUT)

    async def act(self) -> None:
        await self.node.sync()

    async def expect(self) -> None:
        parents = [_S.COMPLETED, _S.FAILED, _S.COMPLETED]
        children = [_S.COMPLETED, _S.COMPLETED, _S.CANCELLED, _S.CANCELLED]
        assert await self.statuses() == [*parents, *children, _S.CANCELLED]
        for task in self.tasks[5:]:
            assert await self.ends(task) == []


class OpenASession(Scenario):
    """A node that was restarted, with one outcome saved on its disk and two executions gone."""

    async def prepare(self) -> None:
        self.node = await self.held_on_a_node(3)
        self.end(self.node, self.tasks[0], End.COMPLETED)

    async def act(self) -> None:
        await self.node.restart()
        await self.node.sync()

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 3
        saved, *lost = self.tasks
        assert await self.ends(saved) == [ExecutionStatus.COMPLETED]
        for task in lost:
            assert await self.ends(task) == [ExecutionStatus.LOST, ExecutionStatus.COMPLETED]
            record = await self.fleet.record(task)
            assert (record.losses, record.retries) == (1, 0)


class CancelTasks(Scenario):
    async def prepare(self) -> None:
        self.node = await self.held_on_a_node(2)
        self.tasks += await self.fleet.tasks()
        later = to_text(self.fleet.clock.now() + 86_400_000)
        self.tasks += await self.fleet.tasks(run_at=later)
        self.tasks += await self.fleet.tasks(depends_on=[task_text(self.tasks[0])])

    async def act(self) -> None:
        *asked, _ = self.tasks
        applied = await self.fleet.master.task_changes.cancel_tasks(asked)
        history = self.fleet.history
        for task, status in applied.after.items():
            history.add(past.CancelAnswered(history.now, task, 1, status is _S.CANCELLED))
        await self.node.sync()
        await self.node.sync()

    async def expect(self) -> None:
        assert await self.statuses() == [_S.CANCELLED] * 5
        assert await self.ends(self.tasks[0]) == [ExecutionStatus.CANCELLED]


class ReapALostNode(Scenario):
    async def prepare(self) -> None:
        self.node = await self.held_on_a_node(3, lease_ms=3_000)
        self.node.drop_held()
        self.other = await self.fleet.node()

    async def act(self) -> None:
        for _ in range(2):
            self.fleet.clock.advance(3.1)
            await self.other.sync()
            await self.fleet.master.reaper.run_once(self.fleet.clock.now())

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 3
        for task in self.tasks:
            assert await self.ends(task) == [ExecutionStatus.LOST, ExecutionStatus.COMPLETED]


class StageARetry(Scenario):
    async def prepare(self) -> None:
        node = await self.held_on_a_node(2)
        for task in self.tasks:
            self.end(node, task, End.FAILED, ErrorClass.NETWORK)
        await node.sync()

    async def act(self) -> None:
        self.fleet.clock.advance(60)
        await self.fleet.master.stager.run_once(self.fleet.clock.now())

    async def expect(self) -> None:
        assert await self.statuses() == [_S.COMPLETED] * 2
        assert [(await self.fleet.record(task)).retries for task in self.tasks] == [1, 1]


class FireSchedules(Scenario):
    """The second tick of schedules that overlap in every way."""

    async def prepare(self) -> None:
        await self.fleet.node()
        self.schedules = {
            overlap: await new_schedule(self.fleet, every_s=3_600, catch_up="all", overlap=overlap.word)
            for overlap in Overlap
        }
        for overlap in (Overlap.SKIP, Overlap.QUEUE, Overlap.CANCEL_PREVIOUS):
            await self.fleet.master.schedules.run_schedule(self.schedules[overlap].id)
        self.fleet.clock.advance(3_600)
        await fire(self.fleet)
        self.fleet.clock.advance(3_600)

    async def act(self) -> None:
        await fire(self.fleet)

    async def expect(self) -> None:
        # What was held fires when the task before it has ended.
        await fire(self.fleet)
        await self.fleet.settle()
        for schedule in self.schedules.values():
            await check_ticks(self.fleet, schedule, 2)
        by_hand = 3
        fired = {overlap: await fired_ticks(self.fleet, one) for overlap, one in self.schedules.items()}
        assert {overlap: len(ticks) for overlap, ticks in fired.items()} == {
            Overlap.ALLOW: 2,
            Overlap.SKIP: 0,
            Overlap.QUEUE: 1,
            Overlap.CANCEL_PREVIOUS: 2,
        }
        assert sum((await self.fleet.store.count_rows()).values()) == by_hand + 5


SCENARIOS = [
    SubmitUnderAKey,
    SubmitOnce,
    Dispatch,
    Finish,
    RetryByAPerson,
    ReleaseDependants,
    OpenASession,
    CancelTasks,
    ReapALostNode,
    StageARetry,
    FireSchedules,
]


async def crash_at(stores: Stores, kind: type[Scenario], point: Point) -> Failpoints:
    living = asyncio.all_tasks()
    fleet = await Fleet(await stores.fresh()).begun()
    scenario, failpoints = kind(fleet), Failpoints(point)
    await scenario.prepare()
    await fleet.start(*failpoints.ports(fleet.store, fleet.new_broker()))
    has_died = await failpoints.run(scenario.act)
    assert has_died == (point != NOWHERE)
    if has_died:
        await fleet.start()
        await scenario.act_again()
    await fleet.settle()
    await scenario.expect()
    await fleet.judge()
    await bury(living)
    return failpoints


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
async def test_a_crash_anywhere_is_finished_by_the_successor(stores: Stores, kind: type[Scenario]) -> None:
    whole = await crash_at(stores, kind, NOWHERE)
    # A crash around a read leaves the same rows as one around the write before: for the quick store all are tried.
    points = list(whole.points(is_every_call=stores.is_quick))
    assert points
    for point in points:
        try:
            await crash_at(stores, kind, point)
        except BaseException as exc:
            steps = f"calls {whole.calls}, statements {whole.statements}"
            exc.add_note(f"{point} of {steps}")
            raise
