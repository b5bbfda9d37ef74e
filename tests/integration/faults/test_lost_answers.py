"""Answers that get lost, and nodes that restart faster than their lease: nothing stays assigned for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus
from crawlfleet.ports.broker import node_topic
from crawlfleet.wire.sync import OutcomeBody, SyncDown, SyncVerdict
from tests.integration.faults.faults_kit import Fleet, PlayedNode

pytestmark = pytest.mark.integration


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came")


async def parked(fleet: Fleet, node: PlayedNode, wait_ms: int = 2_000) -> asyncio.Task[SyncDown]:
    # A wake-up that nobody waited for is kept for the next one: not for this.
    await fleet.master.broker.signals.wait_for_signal(node_topic(node.id), 0)
    call = asyncio.create_task(fleet.master.sync.sync(node.next_up(wait_ms=wait_ms)))
    await until(lambda: node.id in fleet.master.sync._pending_polls)
    return call


async def test_an_answer_with_assignments_that_is_lost_comes_again_with_the_next_sync(fleet: Fleet) -> None:
    node = await fleet.node()
    tasks = await fleet.tasks(4)
    await fleet.dispatch()
    lost = [await node.sync(is_answer_lost=True) for _ in range(3)]
    for down in lost:
        assert sorted(one.task for one in down.assignments) == tasks
    await fleet.dispatch()
    again = await node.sync()
    assert again.assignments == lost[0].assignments
    assert [one.task for one in (await node.sync()).assignments] == []
    await fleet.settle()
    assert len(await fleet.executions()) == 4
    await fleet.judge()


async def test_an_answer_that_acknowledges_and_is_lost_acknowledges_again(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.tasks(3)
    await fleet.dispatch()
    await node.sync()
    first, second, third = node.held
    node.end(first)
    node.end(second, End.FAILED, ErrorClass.INPUT)
    await node.sync(is_answer_lost=True)
    node.end(third)
    down = await node.sync()
    assert sorted(down.acknowledged) == sorted([first, second, third])
    await fleet.settle()
    assert len(await fleet.executions()) == 3
    await fleet.judge()


async def test_an_assignment_lost_on_its_way_and_recalled_is_confirmed_all_the_same(
    fleet: Fleet,
) -> None:
    node = await fleet.node()
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    await node.sync(is_answer_lost=True)
    await fleet.master.task_changes.cancel_tasks([task])
    await node.sync()
    await node.sync()
    assert await fleet.status(task) is TaskStatus.CANCELLED
    await fleet.judge()


async def test_a_node_restarted_faster_than_its_lease_gives_its_work_back_at_once(fleet: Fleet) -> None:
    node = await fleet.node()
    tasks = await fleet.tasks(5)
    await fleet.dispatch()
    await node.sync()
    old = node.session
    await node.restart()
    assert node.session == old + 1
    for task in tasks:
        record = await fleet.record(task)
        assert (record.status, record.losses, record.retries) == (TaskStatus.PENDING, 1, 0)
        assert [one.status for one in await fleet.store.task_executions(task)] == [ExecutionStatus.LOST]
    await fleet.dispatch()
    down = await node.sync()
    assert sorted(one.task for one in down.assignments) == tasks
    assert {row.session for row in await fleet.held_by(node)} == {node.session}
    await fleet.settle()
    await fleet.judge()


async def test_saved_outcomes_are_taken_before_the_rest_is_given_back(fleet: Fleet) -> None:
    node = await fleet.node()
    tasks = await fleet.tasks(4)
    await fleet.dispatch()
    await node.sync()
    runs = {one.task: execution for execution, one in node.held.items()}
    completed, failed, retried, lost = tasks
    node.end(runs[completed], result=msgspec.Raw(b'{"pages":7}'))
    node.end(runs[failed], End.FAILED, ErrorClass.INPUT)
    node.end(runs[retried], End.FAILED, ErrorClass.NETWORK)
    first = await fleet.master.open_session.open_session(node.open_up())
    assert sorted(first.acknowledged) == sorted(runs[task] for task in (completed, failed, retried))
    statuses = [await fleet.status(task) for task in tasks]
    assert statuses == [TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.RETRYING, TaskStatus.PENDING]
    assert (await fleet.record(lost)).losses == 1
    assert (await fleet.record(retried)).losses == 0
    (execution,) = await fleet.store.task_executions(completed)
    assert execution.result == b'{"pages":7}'
    await fleet.settle()
    await fleet.judge()


async def test_an_opening_whose_answer_is_lost_holds_nothing_when_it_is_repeated(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.tasks(6)
    await fleet.dispatch()
    await node.sync()
    node.end(next(iter(node.held)))
    node.drop_held()
    before = node.session
    await fleet.master.open_session.open_session(node.open_up())
    # That answer did not arrive; meanwhile the leader gives work to the session that nobody knows of.
    await fleet.dispatch()
    assert len(await fleet.held_by(node)) == 5
    await node.open()
    assert node.session == before + 2
    assert await fleet.held_by(node) == []
    await fleet.settle()
    await fleet.judge()


async def test_an_opening_that_arrives_late_a_second_time_ends_nothing(fleet: Fleet) -> None:
    node = await fleet.node()
    up = node.open_up()
    await node.open()
    await fleet.tasks(5)
    await fleet.dispatch()
    await node.sync()
    down = await fleet.master.open_session.open_session(up)
    assert (down.is_open, down.session) == (False, node.session)
    assert (await node.sync()).verdict is SyncVerdict.OK
    assert len(node.held) == 5
    await fleet.settle()
    assert len(await fleet.executions()) == 5
    await fleet.judge()


async def test_the_session_before_is_told_that_it_is_over_and_renews_nothing(fleet: Fleet) -> None:
    node = await fleet.node()
    late = node.next_up()
    await node.open()
    await node.sync()
    down = await fleet.master.sync.sync(late)
    assert (down.verdict, down.assignments) == (SyncVerdict.SESSION_ENDED, [])
    (lease,) = await fleet.store.open_leases()
    assert (lease.session, lease.renewals) == (node.session, 1)


async def test_work_the_store_does_not_give_to_the_node_is_told_to_stop(fleet: Fleet) -> None:
    node = await fleet.node()
    (task,) = await fleet.tasks()
    await fleet.dispatch()
    await node.sync()
    (mine,) = node.held
    down = await fleet.master.sync.sync(node.next_up(held=[mine, 4_711]))
    assert down.stops == [4_711]
    # A restore from a backup, or a bug: the store has the outcome, the node still runs it.
    await fleet.master.finish.finish_reported(node.id, [OutcomeBody(task, mine, int(End.COMPLETED))])
    assert (await node.sync()).stops == [mine]
    assert not node.held
    await fleet.judge()


async def test_a_node_that_lost_its_lease_begins_again_and_its_work_ran_elsewhere(fleet: Fleet) -> None:
    silent, other = await fleet.node(), await fleet.node()
    tasks = await fleet.tasks(6)
    await fleet.dispatch()
    await silent.sync()
    silent.drop_held()
    for _ in range(4):
        fleet.clock.advance(3.1)
        await other.sync()
        await fleet.master.reaper.run_once(fleet.clock.now())
    await fleet.settle([other])
    assert {await fleet.status(task) for task in tasks} == {TaskStatus.COMPLETED}
    assert (await silent.sync()).verdict is SyncVerdict.SESSION_ENDED
    await silent.open()
    assert (await silent.sync()).verdict is SyncVerdict.OK
    await fleet.judge()


async def test_a_parked_sync_is_answered_when_work_is_placed(fleet: Fleet) -> None:
    node = await fleet.node()
    call = await parked(fleet, node)
    tasks = await fleet.tasks(2)
    await fleet.dispatch()
    down = await call
    assert sorted(one.task for one in down.assignments) == tasks
    node.take(down)
    await fleet.settle()
    await fleet.judge()


async def test_a_parked_sync_whose_hint_was_lost_goes_home_and_the_next_one_brings_the_work(fleet: Fleet) -> None:
    node = await fleet.node()
    call = await parked(fleet, node, wait_ms=60)
    (task,) = await fleet.tasks()
    (row,) = (await fleet.store.live_tasks([task])).values()
    await fleet.start(broker=fleet.new_broker())
    await fleet.dispatch()
    assert (await call).assignments == []
    assert row.status is TaskStatus.PENDING
    assert [one.task for one in (await node.sync()).assignments] == [task]
    await fleet.settle()
    await fleet.judge()


async def test_a_newer_sync_sends_the_parked_one_home_empty(fleet: Fleet) -> None:
    node = await fleet.node()
    await fleet.tasks(2)
    await fleet.dispatch()
    await node.sync()
    older = await parked(fleet, node)
    node.end_all()
    down = await node.sync()
    assert len(down.acknowledged) == 2
    assert (await older).verdict is SyncVerdict.STALE_NUMBER
    await fleet.settle()
    await fleet.judge()


async def test_a_parked_sync_hears_of_a_newer_session_and_of_removal(fleet: Fleet) -> None:
    node = await fleet.node()
    call = await parked(fleet, node)
    await node.open()
    await node.sync()
    assert (await call).verdict in (SyncVerdict.SESSION_ENDED, SyncVerdict.STALE_NUMBER)
    call = await parked(fleet, node)
    await fleet.master.node_changes.unregister_node(node.id)
    assert (await call).verdict is SyncVerdict.REMOVED


async def test_a_node_that_leaves_hands_everything_back_at_once(fleet: Fleet) -> None:
    leaving, staying = await fleet.node(slots=3), await fleet.node(slots=3)
    tasks = await fleet.tasks(6)
    await fleet.dispatch()
    down = await fleet.master.sync.sync(leaving.next_up(is_leaving=True))
    assert down.verdict is SyncVerdict.OK
    assert await fleet.held_by(leaving) == []
    assert (await leaving.sync()).verdict is SyncVerdict.SESSION_ENDED
    await fleet.settle([staying])
    assert {(await fleet.record(task)).losses for task in tasks} == {0}
    await fleet.judge()
