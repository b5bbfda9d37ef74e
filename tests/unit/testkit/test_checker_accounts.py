"""Retries stay bounded, all that was taken is given back, and counters are true."""

from dataclasses import replace

import pytest

from crawlfleet.model.group import GroupCounts
from crawlfleet.model.ids import node_text
from crawlfleet.model.status import ExecutionStatus, TaskStatus
from testkit.checker import check
from testkit.history import FinalState, GroupState, HeldSlots, TaskState
from testkit.violations import Invariant
from tests.unit.testkit.checker_kit import DONE, END, EXEC, EXEC_B, NODE, NODE_B, execution, final, history, only

# Retries bounded


def test_more_retries_than_allowed() -> None:
    failures = [execution(EXEC + n, ExecutionStatus.FAILED, retry=n) for n in range(4)]
    out = TaskState(TaskStatus.FAILED, retries=3, max_retries=3, is_dead_letter=True)
    assert check(history(), final(out, *failures)) == []
    only(check(history(), final(replace(out, max_retries=2), *failures)), Invariant.RETRIES_BOUNDED)


@pytest.mark.parametrize("ended", [ExecutionStatus.LOST, ExecutionStatus.PREEMPTED, ExecutionStatus.RETURNED])
def test_a_loss_costs_no_retry(ended: ExecutionStatus) -> None:
    lost, free = execution(EXEC, ended), execution(EXEC_B, ExecutionStatus.COMPLETED)
    assert check(history(), final(replace(DONE, losses=1), lost, free)) == []
    paid = final(replace(DONE, losses=1, retries=1), lost, replace(free, retry=1))
    assert ended.word in only(check(history(), paid), Invariant.RETRIES_BOUNDED).detail
    counted = final(replace(DONE, losses=1, retries=1), lost, free)
    only(check(history(), counted), Invariant.RETRIES_BOUNDED)


def test_three_deaths_alone_make_a_dead_letter() -> None:
    deaths = [execution(EXEC + n, ExecutionStatus.FAILED) for n in range(3)]
    buried = TaskState(TaskStatus.FAILED, deaths=3, is_dead_letter=True)
    assert check(history(), final(buried, *deaths)) == []
    only(check(history(), final(replace(buried, is_dead_letter=False), *deaths)), Invariant.RETRIES_BOUNDED)
    pending = replace(buried, status=TaskStatus.PENDING, why="waits for a slot")
    only(check(history(), final(pending, *deaths)), Invariant.RETRIES_BOUNDED)
    only(check(history(), final(replace(buried, deaths=4), *deaths)), Invariant.RETRIES_BOUNDED)


# All given back


@pytest.mark.parametrize("held", [HeldSlots(1, 0), HeldSlots(0, 1)])
def test_slots_come_back(held: HeldSlots) -> None:
    violation = only(
        check(history(), FinalState(END, slots={NODE: held, NODE_B: HeldSlots(0, 0)})), Invariant.ALL_GIVEN_BACK
    )
    assert node_text(NODE) in violation.detail


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


def test_groups_are_counted_as_their_rows_and_finished_only_without_open_members() -> None:
    counts = GroupCounts(open=1, completed=2)
    good = FinalState(END, groups={7: GroupState(counts, counts, False)})
    assert check(history(), good) == []
    missed = FinalState(END, groups={7: GroupState(GroupCounts(open=2, completed=1), counts, False)})
    assert "the counters say (2, 1, 0, 0, 0), the rows (1, 2, 0, 0, 0)" in (
        only(check(history(), missed), Invariant.COUNTERS_TRUE).detail
    )
    early = FinalState(END, groups={7: GroupState(counts, counts, True)})
    assert "is finished with 1 open members" in only(check(history(), early), Invariant.COUNTERS_TRUE).detail
