"""For each invariant: a clean history passes, and the smallest broken one is caught."""

from dataclasses import replace

import pytest

from crawlfleet.model.ids import execution_text, node_text, task_text
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from crawlfleet.testing.checker import check
from crawlfleet.testing.history import (
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
from crawlfleet.testing.violations import Invariant, Limits
from tests.unit.checker_kit import DONE, E1, E2, E3, END, N1, N2, T1, T2, execution, final, history, only

RUN = (
    SubmitSent(0, "b1", 1),
    SubmitAnswered(10, "b1", (T1,)),
    Assigned(20, T1, 1, E1, N1, 1),
    Started(30, T1, E1, N1),
    Ended(900, T1, E1, N1),
    OutcomeAccepted(950, T1, 1, E1, TaskStatus.COMPLETED),
)
COMPLETED = replace(final(DONE, execution(E1, ExecutionStatus.COMPLETED)), batches={"b1": [T1]})


def test_a_clean_run_passes() -> None:
    clean = replace(
        COMPLETED,
        counters={TaskStatus.COMPLETED: 1},
        rows={TaskStatus.COMPLETED: 1, TaskStatus.PENDING: 0},
        slots={N1: HeldSlots(0, 0)},
        reservations={"node-31 memory_mb": 0.0},
    )
    assert check(history(*RUN), clean) == []


def test_an_empty_run_passes() -> None:
    assert check(history(), FinalState(0)) == []


def test_a_history_keeps_order_and_stamps_its_own_time() -> None:
    times = iter([5, 7])
    made = History(lambda: next(times))
    made.add(NodeStarted(made.now, N1, 4))
    made.add(NodeKilled(made.now, N1))
    assert [record.at for record in made] == [5, 7]
    assert made.of(NodeKilled) == [NodeKilled(7, N1)]
    assert len(made) == 2


# None lost


def test_an_answered_task_that_is_gone() -> None:
    violation = only(check(history(*RUN[:2]), final()), Invariant.NONE_LOST)
    assert str(violation) == f"none lost at 0.010 s: {task_text(T1)} of batch b1 was answered and is gone"


def test_a_waiting_task_needs_a_reason() -> None:
    waits = TaskState(TaskStatus.PENDING, why="no node has a free slot")
    assert check(history(*RUN[:2]), final(waits)) == []
    only(check(history(*RUN[:2]), final(replace(waits, why=""))), Invariant.NONE_LOST)


def test_an_answered_retry_that_was_lost() -> None:
    retried = (*RUN, RetryAnswered(1_000, T1, 2))
    assert check(history(*retried), replace(COMPLETED, tasks={T1: replace(DONE, round=2)})) == []
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
    twice = replace(COMPLETED, tasks={T1: DONE, T2: DONE}, batches={"b1": [T1, T2]})
    sent_again = history(SubmitSent(0, "b1", 1), *RUN)
    assert check(sent_again, replace(twice, batches={"b1": [T1]})) == []
    assert task_text(T2) in only(check(sent_again, twice), Invariant.WHOLE_OR_ABSENT).detail


def test_a_refused_batch_left_nothing() -> None:
    refused = (SubmitSent(0, "b1", 1), SubmitRefused(10, "b1", "store unavailable"))
    assert check(history(*refused), final()) == []
    left = replace(final(DONE), batches={"b1": [T1]})
    only(check(history(*refused), left), Invariant.WHOLE_OR_ABSENT)
    assert check(history(*refused, SubmitSent(20, "b1", 1)), left) == [], "the second try was not answered"


# One outcome


def test_two_completed_executions_of_one_round() -> None:
    """What completion without the fence would do."""
    both = final(DONE, execution(E1, ExecutionStatus.COMPLETED), execution(E2, ExecutionStatus.COMPLETED))
    assert execution_text(E2) in only(check(history(), both), Invariant.ONE_OUTCOME).detail
    rounds = (
        execution(E1, ExecutionStatus.COMPLETED),
        execution(E2, ExecutionStatus.LOST, round_=2),
        execution(E3, ExecutionStatus.COMPLETED, round_=2),
    )
    assert check(history(), final(replace(DONE, round=2), *rounds)) == []


def test_a_final_status_that_changed_within_its_round() -> None:
    events = (
        OutcomeAccepted(10, T1, 1, E1, TaskStatus.FAILED),
        OutcomeAccepted(20, T1, 1, E2, TaskStatus.COMPLETED),
    )
    violation = only(check(history(*events), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 20
    next_round = history(events[0], RetryAnswered(15, T1, 2), replace(events[1], round=2))
    assert check(next_round, final(replace(DONE, round=2))) == []


def test_what_the_events_said_is_what_the_store_says() -> None:
    failed = history(OutcomeAccepted(10, T1, 1, E1, TaskStatus.FAILED))
    assert check(failed, final(TaskState(TaskStatus.FAILED))) == []
    only(check(failed, final(DONE)), Invariant.ONE_OUTCOME)
    only(check(failed, final(TaskState(TaskStatus.PENDING, why="waits"))), Invariant.ONE_OUTCOME)


def test_a_task_whose_completed_execution_was_forgotten() -> None:
    pending = TaskState(TaskStatus.PENDING, why="waits")
    only(check(history(), final(pending, execution(E1, ExecutionStatus.COMPLETED))), Invariant.ONE_OUTCOME)


def test_living_executions() -> None:
    running = TaskState(TaskStatus.PROCESSING, why="it runs")
    assert check(history(), final(running, execution(E1, None))) == []
    only(check(history(), final(running, execution(E1, None), execution(E2, None))), Invariant.ONE_OUTCOME)
    only(check(history(), final(DONE, execution(E1, None))), Invariant.ONE_OUTCOME)


def test_a_task_that_ran_on_two_nodes_at_once() -> None:
    starts = (Started(1_000, T1, E1, N1), Started(5_000, T1, E2, N2))
    violation = only(check(history(*starts), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 5_000
    assert node_text(N1) in violation.detail
    assert node_text(N2) in violation.detail
    only(check(history(*starts, Ended(5_001, T1, E1, N1)), final(DONE)), Invariant.ONE_OUTCOME)


@pytest.mark.parametrize(
    "gone",
    [
        Ended(5_000, T1, E1, N1),
        NodeKilled(4_000, N1),
        FaultInjected(4_000, Fault.NODE_PAUSE, N1, END),
    ],
)
def test_a_task_that_ran_elsewhere_after_it_was_gone(gone: Record) -> None:
    records = [Started(1_000, T1, E1, N1), Started(5_000, T1, E2, N2), Ended(9_000, T1, E2, N2)]
    assert check(history(*records, gone), final(DONE)) == []


def test_a_node_that_goes_on_with_old_work_after_a_pause() -> None:
    records = (
        Started(1_000, T1, E1, N1),
        FaultInjected(2_000, Fault.NODE_PAUSE, N1, 20_000),
        Started(15_000, T1, E2, N2),
        Ended(40_000, T1, E2, N2),
    )
    assert check(history(*records, Ended(20_050, T1, E1, N1)), final(DONE)) == []
    violation = only(check(history(*records, Ended(23_000, T1, E1, N1)), final(DONE)), Invariant.ONE_OUTCOME)
    assert violation.at == 20_100
    assert len(check(history(*records, Ended(20_050, T1, E1, N1)), final(DONE), Limits(resume_grace_ms=0))) == 1


def test_an_overlap_hidden_by_a_short_execution_between() -> None:
    records = (
        Started(1_000, T1, E1, N1),
        Started(20_000, T1, E3, N2),
        Ended(21_000, T1, E3, N2),
        Ended(30_000, T1, E1, N1),
        Started(25_000, T1, E2, N2),
        Ended(26_000, T1, E2, N2),
    )
    assert [violation.at for violation in check(history(*records), final(DONE))] == [20_000, 25_000]


def test_an_execution_that_started_twice() -> None:
    records = (Started(1_000, T1, E1, N1), Ended(2_000, T1, E1, N1), Started(3_000, T1, E1, N1))
    assert "started twice" in only(check(history(*records), final(DONE)), Invariant.ONE_OUTCOME).detail


def test_nothing_starts_after_a_cancel_was_final() -> None:
    cancelled = TaskState(TaskStatus.CANCELLED)
    before = (Assigned(500, T1, 1, E1, N1, 1), CancelAnswered(1_000, T1, 1, is_final=True))
    assert check(history(*before), final(cancelled)) == []
    violation = only(check(history(*before, Started(1_500, T1, E1, N1)), final(cancelled)), Invariant.ONE_OUTCOME)
    assert violation.at == 1_500
    asked = (before[0], CancelAnswered(1_000, T1, 1, is_final=False), Started(1_500, T1, E1, N1))
    assert check(history(*asked), final(cancelled)) == [], "it was only asked to stop"
    retried = (*before, RetryAnswered(1_200, T1, 2), Assigned(1_300, T1, 2, E2, N1, 1), Started(1_500, T1, E2, N1))
    assert check(history(*retried), final(replace(DONE, round=2))) == []


def test_a_cancel_answered_as_final_stays() -> None:
    only(check(history(CancelAnswered(1_000, T1, 1, is_final=True)), final(DONE)), Invariant.ONE_OUTCOME)


# Retries bounded


def test_more_retries_than_allowed() -> None:
    failures = [execution(E1 + n, ExecutionStatus.FAILED, retry=n) for n in range(4)]
    out = TaskState(TaskStatus.FAILED, retries=3, max_retries=3, is_dead_letter=True)
    assert check(history(), final(out, *failures)) == []
    only(check(history(), final(replace(out, max_retries=2), *failures)), Invariant.RETRIES_BOUNDED)


@pytest.mark.parametrize("ended", [ExecutionStatus.LOST, ExecutionStatus.PREEMPTED, ExecutionStatus.RETURNED])
def test_a_loss_costs_no_retry(ended: ExecutionStatus) -> None:
    lost, free = execution(E1, ended), execution(E2, ExecutionStatus.COMPLETED)
    assert check(history(), final(replace(DONE, losses=1), lost, free)) == []
    paid = final(replace(DONE, losses=1, retries=1), lost, replace(free, retry=1))
    assert ended.word in only(check(history(), paid), Invariant.RETRIES_BOUNDED).detail
    counted = final(replace(DONE, losses=1, retries=1), lost, free)
    only(check(history(), counted), Invariant.RETRIES_BOUNDED)


def test_three_deaths_alone_make_a_dead_letter() -> None:
    deaths = [execution(E1 + n, ExecutionStatus.FAILED) for n in range(3)]
    buried = TaskState(TaskStatus.FAILED, deaths=3, is_dead_letter=True)
    assert check(history(), final(buried, *deaths)) == []
    only(check(history(), final(replace(buried, is_dead_letter=False), *deaths)), Invariant.RETRIES_BOUNDED)
    pending = replace(buried, status=TaskStatus.PENDING, why="waits for a slot")
    only(check(history(), final(pending, *deaths)), Invariant.RETRIES_BOUNDED)
    only(check(history(), final(replace(buried, deaths=4), *deaths)), Invariant.RETRIES_BOUNDED)


# All given back


@pytest.mark.parametrize("held", [HeldSlots(1, 0), HeldSlots(0, 1)])
def test_slots_come_back(held: HeldSlots) -> None:
    violation = only(check(history(), FinalState(END, slots={N1: held, N2: HeldSlots(0, 0)})), Invariant.ALL_GIVEN_BACK)
    assert node_text(N1) in violation.detail


def test_reservations_come_back() -> None:
    state = FinalState(END, reservations={"cpu on a": 0.0, "memory_mb on a": 64.0})
    assert "memory_mb on a is still 64" in only(check(history(), state), Invariant.ALL_GIVEN_BACK).detail


# Counters true


def test_counters_are_the_rows() -> None:
    state = FinalState(END, counters={TaskStatus.PENDING: 3}, rows={TaskStatus.PENDING: 3, TaskStatus.FAILED: 0})
    assert check(history(), state) == []
    only(check(history(), replace(state, rows={TaskStatus.PENDING: 2})), Invariant.COUNTERS_TRUE)
    missing = replace(state, rows={TaskStatus.PENDING: 3, TaskStatus.COMPLETED: 1})
    assert (
        "completed: the counter says 0, the rows 1" in only(check(history(), missing), Invariant.COUNTERS_TRUE).detail
    )
