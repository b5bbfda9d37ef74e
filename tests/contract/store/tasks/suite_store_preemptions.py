"""Making room: the recall, the row that says for whom, and what is read from it."""

import pytest

from crawlfleet.errors import NotLeader
from crawlfleet.model.execution import End
from crawlfleet.model.ids import TaskId, task_text
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ExecutionStatus, Recall, TaskStatus
from crawlfleet.ports.queue_store import Preempted, Preemption, Stopping
from crawlfleet.ports.store import Store
from crawlfleet.ports.task_store import Applied
from testkit.factories import Kit, ReadyNode, Run


async def a_preempted_task_goes_back_at_no_cost_and_its_execution_says_so(store: Store, kit: Kit) -> None:
    node, waiter = await kit.node(), await kit.submit_one()
    run = await _preemptible(kit, node)
    await kit.start(run)
    applied = await _preempt(kit, run, waiter)
    assert (applied.after, applied.nodes_to_wake) == ({run.task: TaskStatus.PROCESSING}, {node.id})
    assert (await kit.live(run.task)).recall is Recall.PREEMPT
    await kit.finish(run, End.STOPPED)
    row = await kit.live(run.task)
    assert (row.status, row.retries, row.losses, row.recall) == (TaskStatus.PENDING, 0, 0, Recall.NONE)
    (ended,) = await kit.second.task_executions(run.task)
    assert ended.status is ExecutionStatus.PREEMPTED
    recalled = [event.data["reason"] for event in await kit.events() if event.kind == "task.recalled"]
    assert recalled == [f"makes room for {task_text(waiter)}"]


async def a_preempted_task_whose_node_is_lost_costs_nothing_either(store: Store, kit: Kit) -> None:
    node, waiter = await kit.node(), await kit.submit_one()
    run = await _preemptible(kit, node)
    await _preempt(kit, run, waiter)
    await kit.end(node)
    row = await kit.live(run.task)
    assert (row.status, row.retries, row.losses) == (TaskStatus.PENDING, 0, 0)


async def one_that_completes_before_it_stops_is_completed(store: Store, kit: Kit) -> None:
    waiter = await kit.submit_one()
    run = await _preemptible(kit, await kit.node())
    await _preempt(kit, run, waiter)
    await kit.complete(run)
    assert await kit.status(run.task) is TaskStatus.COMPLETED
    assert await store.stopping_executions() == []


async def one_that_changed_since_it_was_chosen_is_left_alone(store: Store, kit: Kit) -> None:
    node, waiter = await kit.node(), await kit.submit_one()
    gone, again, cancelled, done = [await _preemptible(kit, node) for _ in range(4)]
    await kit.finish(gone, End.RETURNED)
    await kit.finish(again, End.RETURNED)
    await kit.assign([again.task], node)
    await kit.cancel(cancelled.task)
    await kit.complete(done)
    chosen = [_chosen(run, waiter) for run in (gone, again, cancelled, done)]
    term = await kit.term()
    async with kit.unchanged():
        applied = await store.preempt_executions(chosen, term, kit.now)
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {
        gone.task: Code.NOT_READY,
        again.task: Code.NOT_READY,
        cancelled.task: Code.NOT_READY,
        done.task: Code.ALREADY_FINAL,
    }


async def nobody_is_preempted_twice_under_one_execution(store: Store, kit: Kit) -> None:
    waiter, other = await kit.submit(2)
    run = await _preemptible(kit, await kit.node())
    await _preempt(kit, run, waiter)
    async with kit.unchanged():
        assert run.task in (await _preempt(kit, run, other)).refused


async def what_is_stopping_is_known_for_all_and_for_each_who_waits(store: Store, kit: Kit) -> None:
    node = await kit.node()
    waiter, other, nobody = await kit.submit(3)
    runs = [await _preemptible(kit, node) for _ in range(3)]
    for run, wanted in zip(runs, (waiter, waiter, other), strict=True):
        await _preempt(kit, run, wanted)
    lane = (await kit.live(runs[0].task)).lane
    told = [Stopping(run.task, node.id, lane, w) for run, w in zip(runs, (waiter, waiter, other), strict=True)]
    assert await kit.second.stopping_executions() == told
    assert await kit.second.stopping_executions(waiter) == told[:2]
    assert await kit.second.stopping_executions(nobody) == []
    await kit.finish(runs[0], End.STOPPED)
    assert await kit.second.stopping_executions(waiter) == told[1:2]
    (again,) = await kit.assign([runs[0].task], node)
    assert await kit.second.stopping_executions(waiter) == told[1:2], again


async def how_often_a_task_made_room_is_counted_by_round(store: Store, kit: Kit) -> None:
    node = await kit.node()
    first, second = await kit.submit(2)
    run = await _preemptible(kit, node)
    assert await kit.second.task_preemptions([run.task]) == {}
    for waiter in (first, second):
        await _preempt(kit, run, waiter)
        await kit.finish(run, End.STOPPED)
        (run,) = await kit.assign([run.task], node)
    assert await kit.second.task_preemptions([run.task, first]) == {run.task: Preempted(2, second)}
    await kit.cancel(run.task)
    await kit.finish(run, End.STOPPED)
    await store.reopen_tasks([run.task], kit.now)
    assert await kit.second.task_preemptions([run.task]) == {}


async def those_of_the_last_minute_are_counted(store: Store, kit: Kit) -> None:
    node, waiter = await kit.node(), await kit.submit_one()
    for _ in range(3):
        await _preempt(kit, await _preemptible(kit, node), waiter)
        kit.later(10_000)
    assert await kit.second.preemptions_since(kit.now - 60_000) == 3
    assert await kit.second.preemptions_since(kit.now - 15_000) == 1


async def a_task_that_is_dropped_leaves_no_trace_of_making_room(store: Store, kit: Kit) -> None:
    node, waiter = await kit.node(), await kit.submit_one()
    run = await _preemptible(kit, node)
    await _preempt(kit, run, waiter)
    await kit.complete(run)
    await store.drop_tasks([run.task], kit.now)
    assert (await kit.dump())["preemption"] == []


async def only_the_leader_makes_room(store: Store, kit: Kit) -> None:
    waiter = await kit.submit_one()
    run = await _preemptible(kit, await kit.node())
    term = await kit.term()
    async with kit.unchanged():
        with pytest.raises(NotLeader):
            await store.preempt_executions([_chosen(run, waiter)], term - 1, kit.now)


async def _preemptible(kit: Kit, node: ReadyNode) -> Run:
    lane = await kit.known_lane(priority=1, preemptible=True)
    return await kit.run_one(node, lane=lane)


def _chosen(run: Run, waiter: TaskId) -> Preemption:
    return Preemption(run.task, run.execution, 1, run.node.id, waiter)


async def _preempt(kit: Kit, run: Run, waiter: TaskId) -> Applied:
    return await kit.store.preempt_executions([_chosen(run, waiter)], await kit.term(), kit.now)
