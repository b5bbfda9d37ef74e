"""For each invariant: a clean history passes, and the smallest broken one is caught."""

from dataclasses import replace

import pytest

from crawlfleet.model.ids import execution_text, node_text, task_text
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from testkit.checker import check
from testkit.history import (
    Assigned,
    CancelAnswered,
    Ended,
    Fault,
    FaultInjected,
    FinalState,
    HeldSlots,
    History,
    NodeKilled,
    NodeStarted,
    OutcomeAccepted,
    Record,
    RetryAnswered,
    Started,
    SubmitAnswered,
    SubmitRefused,
    SubmitSent,
    TaskState,
)
from testkit.violations import Invariant, Limits
from tests.unit.testkit.checker_kit import (
    DONE,
    END,
    EXEC,
    EXEC_B,
    EXEC_C,
    NODE,
    NODE_B,
    TASK,
    TASK_B,
    execution,
    final,
    history,
    only,
)

RUN = (
    SubmitSent(0, "b1", 1),
    SubmitAnswered(10, "b1", (TASK,)),
    Assigned(20, TASK, 1, EXEC, NODE, 1),
    Started(30, TASK, EXEC, NODE),
    Ended(900, TASK, EXEC, NODE),
    OutcomeAccepted(950, TASK, 1, EXEC, TaskStatus.COMPLETED),
)
COMPLETED = replace(final(DONE, execution(EXEC, ExecutionStatus.COMPLETED)), batches={"b1": [TASK]})


def test_a_clean_run_passes() -> None:
    clean = replace(
        COMPLETED,
        counters={TaskStatus.COMPLETED: 1},
        rows={TaskStatus.COMPLETED: 1, TaskStatus.PENDING: 0},
        slots={NODE: HeldSlots(0, 0)},
        reservations={"node-31 memory_mb": 0.0},
    )
    assert check(history(*RUN), clean) == []


def test_an_empty_run_passes() -> None:
    assert check(history(), FinalState(0)) == []


def test_a_history_keeps_order_and_stamps_its_own_time() -> None:
    times = iter([5, 7])
    made = History(lambda: next(times))
    made.add(NodeStarted(made.now, NODE, 4))
    made.add(NodeKilled(made.now, NODE))
    assert [record.at for record in made] == [5, 7]
    assert made.of(NodeKilled) == [NodeKilled(7, NODE)]
    assert len(made) == 2


# None lost


def test_an_answered_task_that_is_gone() -> None:
    violation = only(check(history(*RUN[:2]), final()), Invariant.NONE_LOST)
    assert str(violation) == f"none lost at 0.010 s: {task_text(TASK)} of batch b1 was answered and is gone"


def test_a_waiting_task_needs_a_reason() -> None:
    waits = TaskState(TaskStatus.PENDING, why="no node has a free slot")
    assert check(history(*RUN[:2]), final(waits)) == []
    only(check(history(*RUN[:2]), final(replace(waits, why=""))), Invariant.NONE_LOST)


def test_an_answered_retry_that_was_lost() -> None:
    retried = (*RUN, RetryAnswered(1_000, TASK, 2))
    assert check(history(*retried), replace(COMPLETED, tasks={TASK: replace(DONE, round=2)})) == []
    only(check(history(*retried), COMPLETED), Invariant.NONE_LOST)
    assert len(check(history(retried[-1]), final())) == 1


# Whole or absent


@pytest.mark.parametrize(("found", "is_clean"), [(0, True), (1, False), (2, False), (3, True), (4, False)])
def test_an_unanswered_batch_is_whole_or_absent(found: int, is_clean: bool) -> None:
    state = replace(final(), batches={"b2": range(1, found + 1)})
    violations = check(history(SubmitSent(5, "b2", 3)), state)
    if is_clean:
        assert violations == []
    else:
        assert f"{found} of 3" in only(violations, Invariant.WHOLE_OR_ABSENT).detail


def test_an_answered_batch_has_no_tasks_nobody_was_told_of() -> None:
    """Sent again under the same key, it was stored twice."""
    twice = replace(COMPLETED, tasks={TASK: DONE, TASK_B: DONE}, batches={"b1": [TASK, TASK_B]})
    sent_again = history(SubmitSent(0, "b1", 1), *RUN)
    assert check(sent_again, replace(twice, batches={"b1": [TASK]})) == []
    assert task_text(TASK_B) in only(check(sent_again, twice), Invariant.WHOLE_OR_ABSENT).detail


def test_a_refused_batch_left_nothing() -> None:
    refused = (SubmitSent(0, "b1", 1), SubmitRefused(10, "b1", "store unavailable"))
    assert check(history(*refused), final()) == []
    left = replace(final(DONE), batches={"b1": [TASK]})
    only(check(history(*refused), left), Invariant.WHOLE_OR_ABSENT)
    assert check(history(*refused, SubmitSent(20, "b1", 1)), left) == [], "the second try was not answered"


# One outcome


def test_two_completed_executions_of_one_round() -> None:
    """What completion without the fence would do."""
    both = final(DONE, execution(EXEC, ExecutionStatus.COMPLETED), execution(EXEC_B, ExecutionStatus.COMPLETED))
    assert execution_text(EXEC_B) in only(check(history(), both), Invariant.ONE_OUTCOME).detail
    rounds = (
        execution(EXEC, ExecutionStatus.COMPLETED),
        execution(EXEC_B, ExecutionStatus.LOST, round_=2),
        execution(EXEC_C, ExecutionStatus.COMPLETED, round_=2),
    )
    assert check(history(), final(replace(DONE, round=2), *rounds)) == []


def test_a_final_status_that_changed_within_its_round() -> None:
    events = (
        OutcomeAccepted(10, TASK, 1, EXEC, TaskStatus.FAILED),
        OutcomeAccepted(20, TASK, 1, EXEC_B, TaskStatus.COMPLETED),
    )
    violation = only(check(history(*events), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 20
    next_round = history(events[0], RetryAnswered(15, TASK, 2), replace(events[1], round=2))
    assert check(next_round, final(replace(DONE, round=2))) == []


def test_what_the_events_said_is_what_the_store_says() -> None:
    failed = history(OutcomeAccepted(10, TASK, 1, EXEC, TaskStatus.FAILED))
    assert check(failed, final(TaskState(TaskStatus.FAILED))) == []
    only(check(failed, final(DONE)), Invariant.ONE_OUTCOME)
    only(check(failed, final(TaskState(TaskStatus.PENDING, why="waits"))), Invariant.ONE_OUTCOME)


def test_a_task_whose_completed_execution_was_forgotten() -> None:
    pending = TaskState(TaskStatus.PENDING, why="waits")
    only(check(history(), final(pending, execution(EXEC, ExecutionStatus.COMPLETED))), Invariant.ONE_OUTCOME)


def test_every_execution_is_kept() -> None:
    assert check(history(*RUN), COMPLETED) == []
    forgotten = only(check(history(*RUN), replace(COMPLETED, executions=())), Invariant.ONE_OUTCOME)
    assert execution_text(EXEC) in forgotten.detail


def test_living_executions() -> None:
    running = TaskState(TaskStatus.PROCESSING, why="it runs")
    assert check(history(), final(running, execution(EXEC, None))) == []
    only(check(history(), final(running, execution(EXEC, None), execution(EXEC_B, None))), Invariant.ONE_OUTCOME)
    only(check(history(), final(DONE, execution(EXEC, None))), Invariant.ONE_OUTCOME)


def test_a_task_that_ran_on_two_nodes_at_once() -> None:
    starts = (Started(1_000, TASK, EXEC, NODE), Started(5_000, TASK, EXEC_B, NODE_B))
    violation = only(check(history(*starts), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 5_000
    assert node_text(NODE) in violation.detail
    assert node_text(NODE_B) in violation.detail
    only(check(history(*starts, Ended(5_001, TASK, EXEC, NODE)), final(DONE)), Invariant.ONE_OUTCOME)


@pytest.mark.parametrize(
    "gone",
    [
        Ended(5_000, TASK, EXEC, NODE),
        NodeKilled(4_000, NODE),
        FaultInjected(4_000, Fault.NODE_PAUSE, NODE, END),
    ],
)
def test_a_task_that_ran_elsewhere_after_it_was_gone(gone: Record) -> None:
    records = [
        Started(1_000, TASK, EXEC, NODE),
        Started(5_000, TASK, EXEC_B, NODE_B),
        Ended(9_000, TASK, EXEC_B, NODE_B),
    ]
    assert check(history(*records, gone), final(DONE)) == []


def test_a_node_that_goes_on_with_old_work_after_a_pause() -> None:
    records = (
        Started(1_000, TASK, EXEC, NODE),
        FaultInjected(2_000, Fault.NODE_PAUSE, NODE, 20_000),
        Started(15_000, TASK, EXEC_B, NODE_B),
        Ended(40_000, TASK, EXEC_B, NODE_B),
    )
    assert check(history(*records, Ended(20_050, TASK, EXEC, NODE)), final(DONE)) == []
    violation = only(check(history(*records, Ended(23_000, TASK, EXEC, NODE)), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 20_000 + Limits().resume_grace_ms
    assert len(check(history(*records, Ended(20_050, TASK, EXEC, NODE)), final(DONE), Limits(resume_grace_ms=0))) == 1


def test_an_overlap_hidden_by_a_short_execution_between() -> None:
    records = (
        Started(1_000, TASK, EXEC, NODE),
        Started(20_000, TASK, EXEC_C, NODE_B),
        Ended(21_000, TASK, EXEC_C, NODE_B),
        Ended(30_000, TASK, EXEC, NODE),
        Started(25_000, TASK, EXEC_B, NODE_B),
        Ended(26_000, TASK, EXEC_B, NODE_B),
    )
    assert [violation.at for violation in check(history(*records), final(DONE))] == [20_000, 25_000]


def test_an_execution_that_started_twice() -> None:
    records = (Started(1_000, TASK, EXEC, NODE), Ended(2_000, TASK, EXEC, NODE), Started(3_000, TASK, EXEC, NODE))
    assert "started twice" in only(check(history(*records), final(DONE)), Invariant.ONE_OUTCOME).detail


def test_nothing_starts_after_a_cancel_was_final() -> None:
    kept = execution(EXEC, ExecutionStatus.CANCELLED)
    cancelled = final(TaskState(TaskStatus.CANCELLED), kept)
    before = (Assigned(500, TASK, 1, EXEC, NODE, 1), CancelAnswered(1_000, TASK, 1, is_final=True))
    assert check(history(*before), cancelled) == []
    violation = only(check(history(*before, Started(1_500, TASK, EXEC, NODE)), cancelled), Invariant.ONE_OUTCOME)
    assert violation.at == 1_500
    asked = (before[0], CancelAnswered(1_000, TASK, 1, is_final=False), Started(1_500, TASK, EXEC, NODE))
    assert check(history(*asked), cancelled) == [], "it was only asked to stop"
    retried = (
        *before,
        RetryAnswered(1_200, TASK, 2),
        Assigned(1_300, TASK, 2, EXEC_B, NODE, 1),
        Started(1_500, TASK, EXEC_B, NODE),
    )
    assert (
        check(
            history(*retried),
            final(replace(DONE, round=2), kept, execution(EXEC_B, ExecutionStatus.COMPLETED, round_=2)),
        )
        == []
    )


def test_a_cancel_answered_as_final_stays() -> None:
    only(check(history(CancelAnswered(1_000, TASK, 1, is_final=True)), final(DONE)), Invariant.ONE_OUTCOME)
