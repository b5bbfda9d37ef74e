"""Every other change of a live task: decided on the locked row, checked against the table, written whole."""

import asyncio

from crawlfleet.model.event import Kind
from crawlfleet.model.execution import End, Failure
from crawlfleet.model.instants import ms
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import DecideTransition, LiveTask, RetryPolicy, TaskTransition
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.tasks import task_state_machine
from testkit.factories import Kit

CANCELLED, PENDING, PROCESSING = TaskStatus.CANCELLED, TaskStatus.PENDING, TaskStatus.PROCESSING


async def cancelling_pending_work_is_final_at_once(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    applied = await kit.cancel(task)
    assert (applied.after, applied.freed, applied.nodes_to_wake) == ({task: CANCELLED}, [], set())
    record = await kit.record(task)
    assert (record.status, record.reason, record.ended_at) == (CANCELLED, "a person said so", kit.now)


async def cancelling_work_that_waits_for_its_time_is_final_at_once(store: Store, kit: Kit) -> None:
    task = await kit.submit_one(due_at=kit.now + 1)
    await kit.cancel(task)
    assert await kit.status(task) is CANCELLED
    assert await kit.second.due_tasks(kit.later(), 10) == []


async def cancelling_running_work_asks_its_node(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    applied = await kit.cancel(run.task)
    assert (applied.after, applied.nodes_to_wake) == ({run.task: TaskStatus.ASSIGNED}, {run.node.id})
    assert (await kit.live(run.task)).recall is Recall.CANCEL


async def a_cancel_is_final_when_the_node_confirms_the_stop(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.cancel(run.task)
    applied = await kit.finish(run, End.STOPPED)
    assert (applied.after, applied.freed) == ({run.task: CANCELLED}, [(run.node.id, run.execution)])
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.status is ExecutionStatus.CANCELLED


async def a_cancel_is_final_when_the_lease_of_the_node_ends(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.cancel(run.task)
    await kit.end(run.node)
    assert await kit.status(run.task) is CANCELLED


async def cancelling_twice_changes_nothing_more(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.cancel(run.task)
    async with kit.unchanged():
        applied = await kit.cancel(run.task)
    assert (applied.after, applied.nodes_to_wake) == ({run.task: TaskStatus.ASSIGNED}, set())


async def a_final_task_is_changed_no_more(store: Store, kit: Kit) -> None:
    task = await kit.ended_completed()
    async with kit.unchanged():
        applied = await kit.cancel(task)
    assert applied.after == {}
    assert applied.refused[task].code is Code.ALREADY_FINAL


async def an_unknown_task_is_told_so(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        applied = await kit.cancel(12_345)
    assert applied.refused[12_345].code is Code.UNKNOWN_TASK


async def changing_nothing_changes_nothing(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert (await store.change_tasks([], task_state_machine.cancel_task("no"), kit.now)).after == {}


async def refused_ones_do_not_harm_their_neighbours(store: Store, kit: Kit) -> None:
    final, good = await kit.ended_completed(), await kit.submit_one()
    applied = await kit.cancel(final, 12_345, good)
    assert applied.after == {good: CANCELLED}
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {
        final: Code.ALREADY_FINAL,
        12_345: Code.UNKNOWN_TASK,
    }


async def a_thousand_are_cancelled_but_for_the_one_that_ended(store: Store, kit: Kit) -> None:
    tasks = await kit.submit(1_000)
    await kit.cancel(tasks[617])
    applied = await kit.cancel(*tasks)
    assert set(applied.refused) == {tasks[617]}
    assert len(applied.after) == 999
    assert await kit.second.task_totals() == {CANCELLED: 1_000}


async def a_task_named_twice_is_changed_once(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    applied = await kit.cancel(task, task)
    assert (applied.after, applied.refused) == ({task: CANCELLED}, {})
    assert await kit.second.task_totals() == {CANCELLED: 1}


async def an_illegal_transition_is_refused(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.start(run)
    illegal = {
        await kit.submit_one(): TaskStatus.COMPLETED,
        await kit.submit_one(due_at=kit.now + 1): TaskStatus.RETRYING,
        run.task: TaskStatus.ASSIGNED,
    }
    for task, want in illegal.items():
        async with kit.unchanged():
            applied = await store.change_tasks([task], _become(want), kit.now)
        assert applied.after == {}
        assert applied.refused[task].code is Code.ILLEGAL_TRANSITION
        assert want.word in applied.refused[task].detail


async def an_illegal_transition_does_not_harm_a_legal_neighbour(store: Store, kit: Kit) -> None:
    pending, run = await kit.submit_one(), await kit.run_one(await kit.node())
    applied = await store.change_tasks([pending, run.task], _become(PROCESSING), kit.now)
    assert applied.after == {run.task: PROCESSING}
    assert set(applied.refused) == {pending}


async def a_decision_that_refuses_changes_nothing(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    no = Refusal(Code.OVER_LIMIT, "not now")
    async with kit.unchanged():
        applied = await store.change_tasks([task], lambda _row, _policy: no, kit.now)
    assert applied.refused == {task: no}


async def a_decision_sees_the_tasks_own_policy(store: Store, kit: Kit) -> None:
    policy = RetryPolicy(7, 0.5, 9.0)
    seen: dict[int, RetryPolicy] = {}

    def look(row: LiveTask, found: RetryPolicy) -> Refusal:
        seen[row.id] = found
        return Refusal(Code.NOT_READY, "only looking")

    own, plain = await kit.submit_one(retry=policy), await kit.submit_one()
    await store.change_tasks([own, plain], look, kit.now)
    assert seen == {own: policy, plain: RetryPolicy()}


async def a_started_execution_is_processing(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), timeout_s=60)
    kit.later()
    assert (await kit.start(run)).after == {run.task: PROCESSING}
    row = await kit.live(run.task)
    assert (row.status, row.started_at) == (PROCESSING, kit.now)
    assert row.deadline_at == kit.now + ms(60 + task_state_machine.DEADLINE_GRACE_S)


async def a_start_told_twice_changes_nothing_more(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.start(run)
    kit.later()
    async with kit.unchanged():
        assert (await kit.start(run)).after == {run.task: PROCESSING}


async def a_stale_start_is_refused(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.finish(run, End.RETURNED)
    async with kit.unchanged():
        applied = await kit.start(run)
    assert applied.refused[run.task].code is Code.STALE_EXECUTION


async def a_failed_execution_is_tried_again_later(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), retry=RetryPolicy(3, 10.0, 60.0))
    applied = await kit.fail(run, "reset by peer", ErrorClass.NETWORK)
    assert applied.after == {run.task: TaskStatus.RETRYING}
    assert applied.freed == [(run.node.id, run.execution)]
    record = await kit.record(run.task)
    assert (record.retries, record.node, record.execution) == (1, None, None)
    assert record.due_at is not None
    assert kit.now + 5_000 <= record.due_at <= kit.now + 10_000


async def every_execution_is_kept_with_its_retry_number(store: Store, kit: Kit) -> None:
    node = await kit.node()
    run = await kit.run_one(node, retry=RetryPolicy(1, 0.0, 0.0))
    await kit.fail(run, "reset by peer", ErrorClass.NETWORK)
    await store.change_tasks([run.task], task_state_machine.release_due(kit.later()), kit.now)
    (again,) = await kit.assign([run.task], node)
    await kit.fail(again, "reset again", ErrorClass.NETWORK)
    first, second = await kit.second.task_executions(run.task)
    assert (first.id, first.retry, second.id, second.retry) == (run.execution, 0, again.execution, 1)
    assert first.failure == Failure(ErrorClass.NETWORK, "reset by peer")
    assert (await kit.record(run.task)).status is TaskStatus.FAILED


async def an_execution_past_its_timeout_ends_the_task_when_out_of_retries(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node(), retry=RetryPolicy(0))
    await kit.finish(run, End.TIMED_OUT)
    assert await kit.status(run.task) is TaskStatus.TIMEOUT
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.status is ExecutionStatus.TIMEOUT


async def work_taken_back_is_pending_again_at_no_cost(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    applied = await kit.finish(run, End.RETURNED)
    assert (applied.after, applied.ready) == ({run.task: PENDING}, {kit.lane.id: [run.task]})
    row = await kit.live(run.task)
    assert (row.retries, row.losses, row.node, row.session, row.execution) == (0, 0, 0, 0, 0)
    assert (row.assigned_at, row.started_at, row.deadline_at) == (None, None, None)


async def a_moved_task_is_recalled_and_then_pending_again(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    applied = await store.change_tasks(
        [run.task], task_state_machine.recall_execution(Recall.MOVE, "rebalance"), kit.now
    )
    assert applied.nodes_to_wake == {run.node.id}
    await kit.finish(run, End.STOPPED)
    assert await kit.status(run.task) is PENDING
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.status is ExecutionStatus.RETURNED


async def recalling_what_no_node_holds_is_refused(store: Store, kit: Kit) -> None:
    task = await kit.submit_one()
    async with kit.unchanged():
        applied = await store.change_tasks([task], task_state_machine.recall_execution(Recall.PREEMPT, "room"), kit.now)
    assert applied.refused[task].code is Code.ILLEGAL_TRANSITION


async def a_new_priority_moves_a_task_to_another_lane(store: Store, kit: Kit) -> None:
    task, urgent = await kit.submit_one(), await kit.known_lane(priority=10)
    applied = await store.change_tasks([task], task_state_machine.change_lane({kit.lane.id: urgent.id}), kit.now)
    assert applied.ready == {urgent.id: [task]}
    assert (await kit.record(task)).priority == 10
    assert await kit.second.ready_heads(kit.lane.id, 10) == []
    assert await kit.second.ready_heads(urgent.id, 10) == [task]


async def releasing_before_its_time_is_refused(store: Store, kit: Kit) -> None:
    task = await kit.submit_one(due_at=kit.now + 1_000)
    async with kit.unchanged():
        applied = await store.change_tasks([task], task_state_machine.release_due(kit.now + 999), kit.now)
    assert applied.refused[task].code is Code.NOT_READY


async def releasing_when_its_time_has_come_makes_it_pending(store: Store, kit: Kit) -> None:
    task = await kit.submit_one(due_at=kit.now + 1_000)
    applied = await store.change_tasks([task], task_state_machine.release_due(kit.later()), kit.now)
    assert (applied.after, applied.ready) == ({task: PENDING}, {kit.lane.id: [task]})
    assert (await kit.record(task)).due_at is None


async def changes_of_many_at_once_do_not_lose_one_another(store: Store, kit: Kit) -> None:
    """Each change builds on the row the other one left, in whatever order the tasks are named."""
    tasks = await kit.submit(10)

    def lose_once(row: LiveTask, _policy: RetryPolicy) -> TaskTransition:
        return TaskTransition(row._replace(losses=row.losses + 1), Kind.TASK_REPRIORITIZED)

    await asyncio.gather(
        *(
            (store, kit.second)[n % 2].change_tasks(kit.rng.sample(tasks, len(tasks)), lose_once, kit.now)
            for n in range(20)
        )
    )
    assert {row.losses for row in (await kit.second.live_tasks(tasks)).values()} == {20}


def _become(status: TaskStatus) -> DecideTransition:
    return lambda row, _policy: TaskTransition(row._replace(status=status), Kind.TASK_READY)
