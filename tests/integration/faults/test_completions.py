"""Outcomes that come twice, out of order, late, or from the wrong node: the live execution wins, the rest is stale."""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from crawlfleet.errors import UsageError
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, NodeStatus, TaskStatus
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.sync import OutcomeBody, StartBody, SyncUp, SyncVerdict
from tests.integration.faults.faults_kit import Fleet, PlayedNode

pytestmark = pytest.mark.integration

ENDS = pytest.mark.parametrize(
    "end", [End.COMPLETED, End.FAILED, End.RETURNED, End.DIED_ALONE], ids=lambda end: end.name
)


def body(task: TaskId, execution: ExecutionId, end: End = End.COMPLETED) -> OutcomeBody:
    is_failure = end in (End.FAILED, End.DIED_ALONE)
    return OutcomeBody(task, execution, int(end), int(ErrorClass.NETWORK) if is_failure else 0, "it broke" * is_failure)


def codes(answers: object) -> list[object]:
    assert isinstance(answers, list)
    return [answer.code if isinstance(answer, Refusal) else answer for answer in answers]


class Moved(NamedTuple):
    """A task that was taken from one node, which stopped for want of a lease, and given to another."""

    task: TaskId
    old: PlayedNode
    stale: ExecutionId
    new: PlayedNode
    live: ExecutionId


async def moved(fleet: Fleet) -> Moved:
    old = await fleet.node(slots=1)
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    await old.sync()
    (stale,) = old.held
    old.drop_held()
    lost = task_state_machine.lose_execution("its lease ended", fleet.clock.now(), Random(1))
    await fleet.store.end_session(old.id, old.session, NodeStatus.UNRESPONSIVE, lost, fleet.clock.now())
    fleet.clock.advance(10)
    new = await fleet.node(slots=1)
    await fleet.dispatch()
    await new.sync()
    (live,) = new.held
    return Moved(task, old, stale, new, live)


@ENDS
async def test_a_late_outcome_of_the_node_before_is_stale_before_and_after_the_live_one(fleet: Fleet, end: End) -> None:
    task, old, stale, new, live = await moved(fleet)
    finish = fleet.master.finish.finish_reported
    assert codes(await finish(old.id, [body(task, stale, end)])) == [Code.STALE_EXECUTION]
    assert (await fleet.record(task)).execution == live
    assert codes(await finish(new.id, [body(task, live)])) == [TaskStatus.COMPLETED]
    assert codes(await finish(old.id, [body(task, stale, end)])) == [Code.STALE_EXECUTION]
    assert codes(await finish(new.id, [body(task, live, end)])) == [Code.STALE_EXECUTION]
    assert (await fleet.record(task)).status is TaskStatus.COMPLETED


@ENDS
@pytest.mark.parametrize("is_stale_first", [True, False])
async def test_of_two_nodes_at_once_the_live_execution_wins(fleet: Fleet, end: End, is_stale_first: bool) -> None:
    task, old, stale, new, live = await moved(fleet)
    finish = fleet.master.finish.finish_reported
    # One call is under way, so that these two are gathered into one batch.
    others = [finish(old.id, [body(7, 7)])]
    pair = [finish(old.id, [body(task, stale, end)]), finish(new.id, [body(task, live)])]
    _, *answers = await asyncio.gather(*others, *(pair if is_stale_first else reversed(pair)))
    said = [code for answer in answers for code in codes(answer)]
    assert said == [Code.STALE_EXECUTION, TaskStatus.COMPLETED][:: 1 if is_stale_first else -1]


async def test_of_two_starts_at_once_the_live_execution_counts(fleet: Fleet) -> None:
    task, old, stale, new, live = await moved(fleet)
    await old.open()
    old.starts.append(StartBody(task, stale, 5_000))
    new.starts.append(StartBody(task, live, 1_000))
    # The first call is under way while the other two are gathered: the stale start is the last of them.
    await asyncio.gather(_a_start(fleet), new.sync(), old.sync())
    record = await fleet.record(task)
    assert (record.status, record.execution) == (TaskStatus.PROCESSING, live)
    assert record.started_at == fleet.clock.now() - 1_000


async def _a_start(fleet: Fleet) -> None:
    other = await fleet.node()
    other.starts.append(StartBody(1, 1, 0))
    await other.sync()


@ENDS
async def test_another_nodes_execution_cannot_be_ended(fleet: Fleet, end: End) -> None:
    task, old, _, new, live = await moved(fleet)
    assert codes(await fleet.master.finish.finish_reported(old.id, [body(task, live, end)])) == [Code.WRONG_NODE]
    assert (await fleet.record(task)).status is TaskStatus.ASSIGNED
    await old.open()
    down = await fleet.master.sync.sync(old.next_up(outcomes=[body(task, live, end)]))
    assert down.acknowledged == [live]
    assert [row.id for row in await fleet.held_by(new)] == [task]
    await fleet.settle()
    await fleet.judge()


async def test_each_outcome_of_a_batch_gets_the_answer_that_is_its_own(fleet: Fleet) -> None:
    node = await fleet.node(slots=10)
    tasks = await fleet.tasks(6)
    await fleet.dispatch()
    await node.sync()
    runs = {one.task: one.execution for one in node.held.values()}
    first, second, third, fourth, fifth, _ = tasks
    asked = [
        (body(first, runs[first]), TaskStatus.COMPLETED),
        (body(first, runs[first]), Code.STALE_EXECUTION),
        (body(second, runs[second], End.FAILED), TaskStatus.RETRYING),
        (body(12_345, 6_789), Code.UNKNOWN_TASK),
        (body(second, runs[second]), Code.STALE_EXECUTION),
        (body(third, runs[fourth]), Code.STALE_EXECUTION),
        (body(third, runs[third], End.RETURNED), TaskStatus.PENDING),
        (OutcomeBody(fourth, runs[fourth], 99), Code.INVALID_INPUT),
        (OutcomeBody(fourth, runs[fourth], int(End.FAILED), 99), Code.INVALID_INPUT),
        (OutcomeBody(2**63, 2**70, int(End.COMPLETED)), Code.INVALID_INPUT),
        (OutcomeBody(-1, -1, int(End.FAILED)), Code.INVALID_INPUT),
        (body(fifth, runs[fifth], End.STOPPED), TaskStatus.PENDING),
        (body(fourth, runs[fourth]), TaskStatus.COMPLETED),
    ]
    answers = await fleet.master.finish.finish_reported(node.id, [said for said, _ in asked])
    assert codes(answers) == [want for _, want in asked]


async def test_a_sync_acknowledges_every_outcome_taken_or_stale(fleet: Fleet) -> None:
    task, old, stale, new, live = await moved(fleet)
    down = await fleet.master.sync.sync(old.next_up(outcomes=[body(task, stale)]))
    assert (down.verdict, down.acknowledged) == (SyncVerdict.SESSION_ENDED, [stale])
    assert (await fleet.record(task)).status is TaskStatus.ASSIGNED
    await old.open()
    down = await fleet.master.sync.sync(old.next_up(outcomes=[body(task, stale), body(task, stale), body(1, 2)]))
    assert (down.verdict, down.acknowledged) == (SyncVerdict.OK, [stale, stale, 2])
    new.end(live)
    ups = [new.next_up(), new.next_up()]
    late, on_time = await fleet.master.sync.sync(ups[1]), await fleet.master.sync.sync(ups[0])
    assert late.acknowledged == on_time.acknowledged == [live]
    assert on_time.verdict is SyncVerdict.STALE_NUMBER
    new.take(late)
    await fleet.judge()


@pytest.mark.parametrize(
    "said",
    [
        {"number": 2**70},
        {"session": 2**63},
        {"number": -1},
        {"held": [2**70, -5]},
        {"started": [StartBody(2**70, 2**70, 0), StartBody(-1, -1, -1)]},
        {"outcomes": [OutcomeBody(2**70, -1, 1)]},
    ],
    ids=lambda said: next(iter(said)),
)
async def test_a_node_that_speaks_nonsense_harms_only_itself(fleet: Fleet, said: dict[str, object]) -> None:
    confused, others = await fleet.node(), [await fleet.node() for _ in range(3)]
    await fleet.tasks(10)
    await fleet.dispatch()
    for node in others:
        await node.sync()
        node.end_all()
    nonsense: SyncUp = confused.next_up(**said)
    # The confused one speaks first and in the middle: its neighbours are gathered with it.
    calls = [fleet.master.sync.sync(nonsense), *(node.sync() for node in others[:2])]
    calls += [fleet.master.sync.sync(nonsense), others[2].sync()]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for answer in answers:
        assert not isinstance(answer, BaseException) or isinstance(answer, UsageError), repr(answer)
    assert all(not node.outcomes for node in others)
    await fleet.settle()
    await fleet.judge()


@pytest.mark.parametrize("seed", range(2))
async def test_a_storm_of_doubled_shuffled_and_late_outcomes_leaves_one_each(fleet: Fleet, seed: int) -> None:
    rng = Random(seed)
    nodes = [await fleet.node(slots=8) for _ in range(2)]
    tasks = await fleet.tasks(40, retry={"max_retries": 100, "base_delay_s": 0.0})
    said: list[tuple[PlayedNode, OutcomeBody]] = []
    for _ in range(25):
        fleet.clock.advance(6)
        await fleet.master.stager.run_once(fleet.clock.now())
        await fleet.dispatch()
        for node in nodes:
            if rng.random() < 0.2:
                await node.open()
            await node.sync()
            for execution in list(node.held):
                end = rng.choice([End.COMPLETED, End.FAILED, End.RETURNED, End.STOPPED])
                node.end(execution, end, ErrorClass.NETWORK if end is End.FAILED else None)
            said.extend((node, outcome) for outcome in node.outcomes.values())
        storm = rng.choices(said, k=30) if said else []
        await asyncio.gather(*(fleet.master.finish.finish_reported(node.id, [one, one]) for node, one in storm))
    await fleet.settle()
    assert {await fleet.status(task) for task in tasks} == {TaskStatus.COMPLETED}
    await fleet.judge()
