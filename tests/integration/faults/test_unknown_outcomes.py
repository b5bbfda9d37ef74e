"""Writes that are committed and not answered: whoever asked reads again, or repeats, and nothing happens twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from crawlfleet.errors import OutcomeUnknown
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ErrorClass, NodeStatus, TaskStatus
from crawlfleet.ports.task_store import SubmissionAnswer, TaskFilter
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import SyncVerdict
from tests.integration.faults.faults_kit import EVERYTHING, Fleet, PlayedNode, accepted_ids, echo
from tests.integration.faults.faults_stores import Unanswered, UnansweredOnce, store_between

pytestmark = pytest.mark.integration


async def fleet_over(store: SqlStore, *unanswered: str) -> tuple[Fleet, UnansweredOnce]:
    """A fleet of which the next write of each name is not answered, once it is told to begin."""
    fleet, once = Fleet(store), UnansweredOnce()
    await fleet.start(store_between(store, once))
    await fleet.node()
    once.left.extend(unanswered)
    return fleet, once


async def all_tasks(fleet: Fleet) -> set[TaskId]:
    return {record.id for record in await fleet.store.list_tasks(TaskFilter(), EVERYTHING)}


async def held_pairs(fleet: Fleet) -> set[tuple[int, TaskId]]:
    held = await fleet.store.held_tasks([node.id for node in fleet.nodes])
    return {(node, row.id) for node, rows in held.items() for row in rows}


async def runs(fleet: Fleet) -> set[tuple[int, ExecutionId]]:
    held = await fleet.store.held_tasks([node.id for node in fleet.nodes])
    return {(node, row.execution) for node, rows in held.items() for row in rows}


async def test_a_submit_repeated_under_its_key_gives_one_task(store: SqlStore) -> None:
    fleet, _ = await fleet_over(store, "add_tasks")
    with pytest.raises(OutcomeUnknown):
        await fleet.submit(echo(), echo(), batch="b", key="k")
    assert len(await all_tasks(fleet)) == 2
    again = await fleet.submit(echo(), echo(), batch="b", key="k")
    assert again.is_replay
    assert set(accepted_ids(again)) == await all_tasks(fleet)
    await fleet.settle()
    await fleet.judge()


async def test_a_submit_whose_lane_was_committed_unanswered_can_be_repeated(store: SqlStore) -> None:
    fleet, _ = await fleet_over(store, "ensure_lanes")
    with pytest.raises(OutcomeUnknown):
        await fleet.submit(echo(queue="new"), batch="b")
    await fleet.submit(echo(queue="new"), batch="b")
    assert len(await all_tasks(fleet)) == 1
    await fleet.settle()
    await fleet.judge()


async def test_the_dispatcher_delivers_what_was_committed_unanswered(store: SqlStore) -> None:
    fleet, _ = await fleet_over(store, "assign_tasks")
    tasks = await fleet.tasks(7)
    (node,) = fleet.nodes
    fleet.clock.advance(1)
    report = await fleet.master.dispatcher.run_term(await fleet.lead(), fleet.clock.now())
    assert (report.placed, report.refused) == (7, 0)
    assert await held_pairs(fleet) == {(node.id, task) for task in tasks}
    assert fleet.master.ledger.held_pairs() == await runs(fleet)
    first = {row.id: row.execution for row in await fleet.held_by(node)}
    await fleet.dispatch()
    assert {row.id: row.execution for row in await fleet.held_by(node)} == first, "assigned a second time"
    await node.sync()
    assert {one.task: one.execution for one in node.held.values()} == first
    await fleet.settle()
    await fleet.judge()


async def test_what_was_committed_unanswered_and_cannot_be_seen_takes_its_slots_all_the_same(store: SqlStore) -> None:
    fleet, _ = await fleet_over(store, "assign_tasks", "live_tasks")
    (node,) = fleet.nodes
    await fleet.tasks(2 * node.description.slots)
    fleet.clock.advance(1)
    with pytest.raises(OutcomeUnknown):
        await fleet.master.dispatcher.run_term(await fleet.lead(), fleet.clock.now())
    assert len(await held_pairs(fleet)) == node.description.slots
    await fleet.dispatch()
    assert len(await held_pairs(fleet)) == node.description.slots, "given more than it has slots"
    assert fleet.master.ledger.held_pairs() == await runs(fleet)
    await fleet.settle()
    await fleet.judge()


async def test_what_an_unanswered_batch_left_pending_is_placed_elsewhere(store: SqlStore) -> None:
    fleet, once = await fleet_over(store)
    stays, gone = fleet.nodes[0], await fleet.node(slots=5)
    await fleet.dispatch()
    # The dispatcher has seen the second node; it goes without a hint, so that half of the batch cannot be assigned.
    lost = task_state_machine.lose_execution("gone", fleet.clock.now(), Random(1))
    await store.end_session(gone.id, gone.session, NodeStatus.OFFLINE, lost, fleet.clock.now())
    tasks = await fleet.tasks(10)
    once.left.append("assign_tasks")
    await fleet.master.dispatcher.run_once(fleet.clock.now())
    committed = await held_pairs(fleet)
    assert 0 < len(committed) < 10
    assert fleet.master.ledger.held_pairs() == await runs(fleet)
    await fleet.dispatch()
    assert await held_pairs(fleet) == {(stays.id, task) for task in tasks}
    await fleet.settle([stays])
    await fleet.judge()


async def test_a_task_whose_offer_was_lost_does_not_wait_until_its_lane_runs_empty(store: SqlStore) -> None:
    fleet, once = await fleet_over(store)
    (node,) = fleet.nodes
    await fleet.tasks(14)
    await fleet.dispatch()
    once.left.append("add_tasks")
    with pytest.raises(OutcomeUnknown):
        await fleet.submit(echo(), batch="b", key="k")
    (unoffered,) = accepted_ids(await fleet.submit(echo(), batch="b", key="k"))
    for _ in range(6):
        await fleet.tasks(10)
        await node.sync()
        node.end_all()
        await node.sync()
        await fleet.dispatch()
        if await fleet.status(unoffered) is not TaskStatus.PENDING:
            return
    pytest.fail("newer tasks of its lane went before it, again and again")


@pytest.mark.parametrize(
    ("write", "end", "status"),
    [
        ("complete_executions", End.COMPLETED, TaskStatus.COMPLETED),
        ("change_tasks", End.FAILED, TaskStatus.FAILED),
        ("change_tasks", End.RETURNED, TaskStatus.PENDING),
    ],
)
async def test_an_outcome_taken_unanswered_is_acknowledged_when_it_comes_again(
    store: SqlStore, write: str, end: End, status: TaskStatus
) -> None:
    fleet, once = await fleet_over(store)
    (node,) = fleet.nodes
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    await node.sync()
    (execution,) = node.held
    node.end(execution, end, ErrorClass.INPUT if end is End.FAILED else None)
    once.left.append(write)
    with pytest.raises(OutcomeUnknown):
        await node.sync()
    assert await fleet.status(task) is status
    assert execution in (await node.sync()).acknowledged
    assert await fleet.status(task) is status
    assert [one.id for one in await fleet.executions()] == [execution]
    await fleet.settle()
    await fleet.judge()


async def test_a_campaign_won_unanswered_is_recognised(store: SqlStore) -> None:
    fleet = Fleet(store)
    master = await fleet.start(store_between(store, UnansweredOnce("campaign")), leads=False)
    with pytest.raises(OutcomeUnknown):
        await master.leader.run_once(fleet.clock.now())
    assert master.lead.term is None
    await master.leader.run_once(fleet.clock.now())
    row = await store.read_leader()
    assert (row.term, row.holder) == (1, master.name)
    assert master.lead.term == 1


async def test_a_retry_opened_unanswered_opens_one_round(store: SqlStore) -> None:
    fleet, once = await fleet_over(store)
    (node,) = fleet.nodes
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    await node.sync()
    node.end(next(iter(node.held)), End.FAILED, ErrorClass.INPUT)
    await node.sync()
    once.left.append("reopen_tasks")
    with pytest.raises(OutcomeUnknown):
        await fleet.master.task_changes.retry_tasks([task])
    again = await fleet.master.task_changes.retry_tasks([task])
    assert again.refused[task].code is Code.NOT_FINAL
    assert (await fleet.record(task)).round == 2
    await fleet.settle()
    assert (await fleet.record(task)).round == 2
    await fleet.judge()


async def test_a_session_opened_unanswered_leaves_nothing_behind_when_the_node_asks_again(store: SqlStore) -> None:
    fleet, once = await fleet_over(store)
    (node,) = fleet.nodes
    await fleet.tasks(3)
    await fleet.dispatch()
    await node.sync()
    before = node.session
    once.left.append("open_session")
    with pytest.raises(OutcomeUnknown):
        await node.open()
    await node.open()
    assert node.session == before + 2
    assert await fleet.held_by(node) == []
    await fleet.settle()
    await fleet.judge()


@pytest.mark.parametrize(("share", "seed"), [(0.05, 1), (0.3, 2), (0.3, 3)])
async def test_a_whole_run_over_a_store_that_answers_badly(store: SqlStore, share: float, seed: int) -> None:
    fleet, unanswered = Fleet(store), Unanswered(0.0, seed)
    await fleet.start(store_between(store, unanswered))
    nodes = [await fleet.node(slots=6) for _ in range(2)]
    unanswered.share = share
    tasks: list[TaskId] = []
    for number in range(12):
        bodies = [echo(priority=1 + number % 10), echo()]
        if tasks:
            bodies.append(echo(depends_on=[task_text(tasks[-1])]))
        answer = await _until_answered(lambda b=bodies, n=number: fleet.submit(*b, batch=f"b{n}", key=f"k{n}"))  # type: ignore[misc]
        tasks.extend(accepted_ids(answer))
        await _one_round(fleet, nodes)
    for _ in range(10):
        await _one_round(fleet, nodes)
    unanswered.share = 0.0
    # Whoever led without an answer to its last beat has stepped down.
    await fleet.master.leader.run_once(fleet.clock.now())
    await fleet.settle()
    assert unanswered.hits > 5
    assert {await fleet.status(task) for task in tasks} == {TaskStatus.COMPLETED}
    assert len(await all_tasks(fleet)) == len(tasks)
    await fleet.judge()


async def _until_answered(call: Callable[[], Awaitable[SubmissionAnswer]]) -> SubmissionAnswer:
    while True:
        try:
            return await call()
        except OutcomeUnknown:
            continue


async def _one_round(fleet: Fleet, nodes: list[PlayedNode]) -> None:
    """Every loop and every node once, as they would: what is not answered is tried again another time."""
    master = fleet.master
    fleet.clock.advance(1.1)
    loops = (master.leader, master.stager, master.dispatcher, master.reconciler, master.reaper, master.relay)
    for loop in (*loops, master.tallier):
        try:
            await loop.run_once(fleet.clock.now())
        except OutcomeUnknown:
            pass
    for node in nodes:
        try:
            if (await node.sync()).verdict is SyncVerdict.SESSION_ENDED:
                await node.open()
        except OutcomeUnknown:
            continue
        node.end_all()
