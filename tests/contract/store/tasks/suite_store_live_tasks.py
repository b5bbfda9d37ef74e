"""Executions that are over: one accepted outcome for each round of a task, fenced by execution and node."""

import asyncio

from crawlfleet.model.execution import End, Failure
from crawlfleet.model.refusal import Code
from crawlfleet.model.status import ErrorClass, ExecutionStatus, TaskStatus
from crawlfleet.ports.store import Store
from testkit.factories import Kit, Run

ROUNDS = 30
COMPLETED = TaskStatus.COMPLETED


async def a_completed_execution_completes_its_task(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    assigned_at = kit.now
    kit.later()
    outcome = kit.outcome(run)._replace(result=b'{"pages":3}', metrics=b'{"cpu":1}', started_at=kit.now - 5)
    applied = await store.complete_executions([outcome], kit.now)
    assert (applied.after, applied.refused) == ({run.task: COMPLETED}, {})
    assert applied.freed == [(run.node.id, run.execution)]
    record = await kit.record(run.task)
    assert (record.status, record.node, record.execution) == (COMPLETED, run.node.id, run.execution)
    assert (record.assigned_at, record.started_at, record.ended_at) == (assigned_at, kit.now - 5, kit.now)
    assert await kit.second.live_tasks([run.task]) == {}


async def a_completed_execution_is_kept_with_its_result(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    outcome = kit.outcome(run)._replace(result=b'{"pages":3}', metrics=b'{"cpu":1}')
    await store.complete_executions([outcome], kit.later())
    (execution,) = await kit.second.task_executions(run.task)
    assert (execution.id, execution.status) == (run.execution, ExecutionStatus.COMPLETED)
    assert (execution.node, execution.session) == run.node
    assert (execution.round, execution.retry, execution.failure) == (1, 0, None)
    assert (execution.result, execution.metrics) == (b'{"pages":3}', b'{"cpu":1}')


async def the_start_that_was_told_outranks_the_one_in_the_outcome(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.start(run)
    told_at = kit.now
    outcome = kit.outcome(run)._replace(started_at=kit.later())
    await store.complete_executions([outcome], kit.now)
    assert (await kit.record(run.task)).started_at == told_at


async def a_failed_execution_keeps_the_start_its_node_told_with_it(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    started_at = kit.later()
    outcome = kit.outcome(run, End.FAILED, Failure(ErrorClass.NETWORK, "reset"))._replace(started_at=started_at)
    kit.later()
    assert (await kit.finish_with(outcome)).after == {run.task: TaskStatus.RETRYING}
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.started_at == started_at


async def a_processing_task_is_completed_too(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.start(run)
    assert (await kit.complete(run)).after == {run.task: COMPLETED}
    assert await kit.second.task_totals() == {COMPLETED: 1}


async def completing_nothing_changes_nothing(store: Store, kit: Kit) -> None:
    async with kit.unchanged():
        assert (await store.complete_executions([], kit.now)).after == {}


async def finishing_a_stale_execution_is_refused(store: Store, kit: Kit) -> None:
    stale = await _lost_and_assigned_again(kit)
    await _is_refused(kit, stale, Code.STALE_EXECUTION)


async def finishing_an_execution_of_a_task_that_waits_again_is_refused(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.end(run.node)
    await _is_refused(kit, run, Code.STALE_EXECUTION)


async def finishing_an_execution_nobody_knows_is_refused(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _is_refused(kit, run._replace(execution=12_345), Code.STALE_EXECUTION)


async def finishing_no_execution_at_all_is_refused(store: Store, kit: Kit) -> None:
    node, task = await kit.node(), await kit.submit_one()
    async with kit.unchanged():
        applied = await kit.complete(Run(task, 0, node))
        decided = await kit.finish(Run(task, 0, node), End.COMPLETED)
    assert (applied.after, decided.after) == ({}, {})
    assert set(applied.refused) == set(decided.refused) == {task}


async def finishing_another_nodes_execution_is_refused(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await _is_refused(kit, run._replace(node=await kit.node()), Code.WRONG_NODE)


async def finishing_an_unknown_task_is_refused(store: Store, kit: Kit) -> None:
    await _is_refused(kit, Run(12_345, 54_321, await kit.node()), Code.UNKNOWN_TASK)


async def an_execution_finished_under_another_task_is_refused(store: Store, kit: Kit) -> None:
    first, second = await kit.run(await kit.node(), 2)
    async with kit.unchanged():
        applied = await kit.complete(
            first._replace(execution=second.execution), second._replace(execution=first.execution)
        )
    assert {refusal.code for refusal in applied.refused.values()} == {Code.STALE_EXECUTION}
    assert set(applied.refused) == {first.task, second.task}


async def outcomes_of_many_nodes_are_taken_in_one_call(store: Store, kit: Kit) -> None:
    runs = [await kit.run_one(await kit.node()) for _ in range(3)]
    applied = await kit.complete(*runs)
    assert applied.after == dict.fromkeys((run.task for run in runs), COMPLETED)
    assert sorted(applied.freed) == sorted((run.node.id, run.execution) for run in runs)
    for run in runs:
        (execution,) = await kit.second.task_executions(run.task)
        assert (execution.node, execution.session) == run.node


async def the_word_of_another_node_in_the_same_call_does_not_harm_the_right_one(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    wrong = run._replace(node=await kit.node())
    applied = await kit.complete(wrong, run, wrong)
    assert applied.after == {run.task: COMPLETED}
    assert applied.freed == [(run.node.id, run.execution)]


async def a_stale_one_among_a_thousand_is_refused_alone(store: Store, kit: Kit) -> None:
    node = await kit.node()
    runs = await kit.run(node, 1_000)
    runs[617] = runs[617]._replace(execution=12_345)
    applied = await kit.complete(*runs)
    assert {task: refusal.code for task, refusal in applied.refused.items()} == {runs[617].task: Code.STALE_EXECUTION}
    assert await kit.second.task_totals() == {COMPLETED: 999, TaskStatus.ASSIGNED: 1}
    assert await kit.second.task_totals() == await kit.second.count_rows()


async def an_outcome_told_twice_in_one_call_counts_once_and_the_first_one_does(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    outcomes = [kit.outcome(run)._replace(result=result) for result in (b'"first"', b'"second"')]
    applied = await store.complete_executions(outcomes, kit.now)
    assert applied.after == {run.task: COMPLETED}
    (execution,) = await kit.second.task_executions(run.task)
    assert execution.result == b'"first"'
    assert await kit.second.task_totals() == {COMPLETED: 1}


async def an_outcome_told_again_is_stale(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.complete(run)
    async with kit.unchanged():
        applied = await kit.complete(run)
    assert applied.refused[run.task].code is Code.STALE_EXECUTION


async def an_outcome_told_again_by_a_decision_finds_the_task_final(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.complete(run)
    async with kit.unchanged():
        applied = await kit.fail(run)
    assert applied.refused[run.task].code is Code.ALREADY_FINAL


async def a_stale_and_the_live_execution_of_one_task_in_one_call_complete_it(store: Store, kit: Kit) -> None:
    node = await kit.node()
    stale = await kit.run_one(node)
    await kit.finish(stale, End.RETURNED)
    (live,) = await kit.assign([stale.task], node)
    applied = await kit.complete(stale, live)
    assert applied.after == {live.task: COMPLETED}
    assert (await kit.record(live.task)).execution == live.execution


async def reordered_outcomes_of_two_nodes_end_with_the_live_one(store: Store, kit: Kit) -> None:
    stale = await _lost_and_assigned_again(kit)
    live = await kit.live(stale.task)
    assert (await kit.complete(stale)).refused[stale.task].code is Code.STALE_EXECUTION
    winner = kit.outcome(stale)._replace(node=live.node, execution=live.execution)
    assert (await store.complete_executions([winner], kit.now)).after == {stale.task: COMPLETED}
    assert (await kit.complete(stale)).refused[stale.task].code is Code.STALE_EXECUTION
    assert (await kit.record(stale.task)).execution == live.execution


async def a_late_outcome_for_a_waiting_child_of_a_task_completed_beside_it_is_refused(store: Store, kit: Kit) -> None:
    node = await kit.node()
    parent = await kit.run_one(node)
    child = await kit.submit_one(parents=[parent.task])
    applied = await kit.complete(parent, Run(child, 12_345, node))
    assert applied.refused[child].code is Code.STALE_EXECUTION
    assert await kit.status(child) is TaskStatus.PENDING


async def a_completed_outcome_outranks_a_cancel_that_was_asked_of_the_node(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.cancel(run.task)
    assert (await kit.complete(run)).after == {run.task: COMPLETED}


async def a_decided_completion_outranks_a_cancel_too(store: Store, kit: Kit) -> None:
    run = await kit.run_one(await kit.node())
    await kit.cancel(run.task)
    assert (await kit.finish(run, End.COMPLETED)).after == {run.task: COMPLETED}


async def of_two_nodes_that_tell_an_outcome_at_once_one_is_taken(store: Store, kit: Kit) -> None:
    nodes = [await kit.node(), await kit.node()]
    for task in await kit.submit(ROUNDS):
        (lost,) = await kit.assign([task], nodes[0])
        await kit.finish(lost, End.PROCESS_LOST)
        (live,) = await kit.assign([task], nodes[1])
        told = (kit.second.complete_executions([kit.outcome(run)], kit.now) for run in (lost, live, live, lost))
        applied = await asyncio.gather(*told)
        assert sum(task in one.after for one in applied) == 1
        assert (await kit.record(task)).execution == live.execution
    assert await kit.second.task_totals() == {COMPLETED: ROUNDS}


async def a_completion_racing_with_a_failure_leaves_one_outcome(store: Store, kit: Kit) -> None:
    node = await kit.node()
    for run in await kit.run(node, ROUNDS):
        calls = [kit.complete(run), kit.fail(run)]
        applied = await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        assert sum(run.task in one.after for one in applied) == 1
        assert len(await kit.second.task_executions(run.task)) == 1
    totals = await kit.second.task_totals()
    assert sum(totals.values()) == ROUNDS
    assert totals == await kit.second.count_rows()


async def a_completion_racing_with_the_end_of_its_session_leaves_one_truth(store: Store, kit: Kit) -> None:
    for _ in range(ROUNDS):
        run = await kit.run_one(await kit.node())
        calls = [kit.complete(run), kit.end(run.node)]
        await asyncio.gather(*kit.rng.sample(calls, len(calls)))
        record = await kit.record(run.task)
        (execution,) = await kit.second.task_executions(run.task)
        assert record.status in (COMPLETED, TaskStatus.PENDING)
        assert (execution.status is ExecutionStatus.COMPLETED) == (record.status is COMPLETED)


async def _lost_and_assigned_again(kit: Kit) -> Run:
    """An execution of a node that was lost; its task runs on another."""
    run = await kit.run_one(await kit.node())
    await kit.end(run.node)
    await kit.assign([run.task], await kit.node())
    return run


async def _is_refused(kit: Kit, run: Run, code: Code) -> None:
    """By the hot path and by a decision alike."""
    async with kit.unchanged():
        applied = await kit.complete(run)
        decided = await kit.fail(run)
    for one in (applied, decided):
        assert (one.after, one.freed, one.ready) == ({}, [], {})
        assert {task: refusal.code for task, refusal in one.refused.items()} == {run.task: code}
