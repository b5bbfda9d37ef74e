"""Work of a dead node is elsewhere in time and a dead leader replaced, and what excuses from that."""

from dataclasses import replace

import pytest

from crawlfleet.model.status import ExecutionStatus, TaskStatus
from testkit.checker import check
from testkit.history import (
    Assigned,
    CancelAnswered,
    Ended,
    Fault,
    FaultInjected,
    LeaderElected,
    MasterKilled,
    MasterStarted,
    NodeKilled,
    NodeLeft,
    NodeStarted,
    OutcomeAccepted,
    Record,
    Started,
)
from testkit.violations import Invariant
from tests.unit.testkit.checker_kit import (
    DONE,
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

KILL = 40_000
UP = (NodeStarted(0, NODE, 4), NodeStarted(0, NODE_B, 1))
LOST = (Assigned(39_000, TASK, 1, EXEC, NODE, 1), Started(39_010, TASK, EXEC, NODE), NodeKilled(KILL, NODE))

ENDED = final(DONE, execution(EXEC, ExecutionStatus.LOST), execution(EXEC_B, ExecutionStatus.COMPLETED))


def again(at: int) -> Assigned:
    return Assigned(at, TASK, 1, EXEC_B, NODE_B, 1)


@pytest.mark.parametrize("lost", [LOST, (LOST[0], LOST[2])], ids=["running", "only assigned"])
def test_work_of_a_dead_node_is_elsewhere_in_time(lost: tuple[Record, ...]) -> None:
    assert check(history(*UP, *lost, again(KILL + 15_000)), ENDED) == []
    late = only(check(history(*UP, *lost, again(KILL + 15_001)), ENDED), Invariant.RECOVERY_BOUNDED)
    assert late.at == KILL
    assert "only at 55.001 s" in late.detail
    never = only(check(history(*UP, *lost), ENDED), Invariant.RECOVERY_BOUNDED)
    assert "never" in never.detail


@pytest.mark.parametrize(
    "excuse",
    [
        Ended(KILL - 1, TASK, EXEC, NODE),
        OutcomeAccepted(KILL + 500, TASK, 1, EXEC, TaskStatus.COMPLETED),
        CancelAnswered(KILL + 500, TASK, 1, is_final=False),
        Assigned(KILL - 500, TASK_B, 1, EXEC_C, NODE_B, 1),
        Assigned(KILL + 500, TASK_B, 1, EXEC_C, NODE_B, 1),
        NodeLeft(KILL + 500, NODE_B),
        NodeLeft(KILL - 500, NODE_B),
        MasterKilled(KILL + 14_000, "master-1"),
        FaultInjected(KILL + 14_000, Fault.STORE, "store", KILL + 14_500),
        FaultInjected(KILL - 20_000, Fault.NETWORK_CUT, NODE_B, KILL - 14_000),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_excuses_from_recovery(excuse: Record) -> None:
    records = sorted((*UP, *LOST, excuse), key=lambda record: record.at)
    assert check(history(*records), ENDED) == []


@pytest.mark.parametrize(
    "no_excuse",
    [
        FaultInjected(KILL, Fault.NODE_KILL, NODE, KILL + 30_000),
        FaultInjected(KILL - 30_000, Fault.NETWORK_CUT, NODE_B, KILL - 15_000),
        FaultInjected(KILL + 15_001, Fault.STORE, "store", KILL + 20_000),
        NodeStarted(KILL + 1_000, NODE, 4),
        OutcomeAccepted(KILL - 30_000, TASK, 0, EXEC_C, TaskStatus.FAILED),
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_does_not_excuse_from_recovery(no_excuse: Record) -> None:
    only(check(history(*UP, *LOST, no_excuse), ENDED), Invariant.RECOVERY_BOUNDED)


def test_a_slot_that_was_busy_and_then_free_again_is_no_slot_all_the_time() -> None:
    busy = Assigned(KILL + 1_000, TASK_B, 1, EXEC_C, NODE_B, 1), Ended(KILL + 2_000, TASK_B, EXEC_C, NODE_B)
    assert check(history(*UP, *LOST, *busy), ENDED) == []
    earlier = Assigned(KILL - 2_000, TASK_B, 1, EXEC_C, NODE_B, 1), Ended(KILL - 1_000, TASK_B, EXEC_C, NODE_B)
    only(check(history(*UP, *earlier, *LOST), ENDED), Invariant.RECOVERY_BOUNDED)


def test_recovery_is_not_judged_before_its_time_is_over() -> None:
    assert check(history(*UP, *LOST), replace(ENDED, at=KILL + 14_999)) == []


MASTERS = (MasterStarted(0, "a"), MasterStarted(0, "b"), LeaderElected(100, 1, "a"))


def test_a_dead_leader_is_replaced_in_time() -> None:
    killed = (*MASTERS, MasterKilled(KILL, "a"))
    assert check(history(*killed, LeaderElected(KILL + 5_000, 2, "b")), final()) == []
    late = history(*killed, LeaderElected(KILL + 5_001, 2, "b"))
    assert "only at 45.001 s" in only(check(late, final()), Invariant.RECOVERY_BOUNDED).detail
    assert "never" in only(check(history(*killed), final()), Invariant.RECOVERY_BOUNDED).detail


def test_what_excuses_from_an_election() -> None:
    assert check(history(*MASTERS, MasterKilled(KILL, "b")), final()) == [], "it did not lead"
    alone = (MASTERS[0], MASTERS[2], MasterKilled(KILL, "a"))
    assert check(history(*alone), final()) == [], "nobody else was there"
    pause = FaultInjected(KILL + 1_000, Fault.MASTER_PAUSE, "b", KILL + 30_000)
    assert check(history(*MASTERS, MasterKilled(KILL, "a"), pause), final()) == []
    same = FaultInjected(KILL, Fault.MASTER_KILL, "a", KILL + 30_000)
    only(check(history(*MASTERS, MasterKilled(KILL, "a"), same), final()), Invariant.RECOVERY_BOUNDED)


@pytest.mark.parametrize("status", [ExecutionStatus.LOST, ExecutionStatus.TIMEOUT])
def test_an_execution_whose_outcome_was_known_after_all_was_not_lost(status: ExecutionStatus) -> None:
    """A node that comes back tells what it had saved; the task may then wait for its next attempt."""
    violations = check(history(*UP, *LOST), final(DONE, execution(EXEC, status)))
    assert bool(violations) == (status is ExecutionStatus.LOST)
