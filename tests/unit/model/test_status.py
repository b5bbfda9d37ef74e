"""The one table of legal transitions."""

import pytest

from crawlfleet.model.status import (
    FINAL_STATUSES,
    LIVE_STATUSES,
    REOPENED,
    TRANSITIONS,
    WAITING_STATUSES,
    ErrorClass,
    ExecutionStatus,
    Health,
    NodeStatus,
    Recall,
    TaskStatus,
    is_legal,
)

S = TaskStatus
EXPECTED = {
    "pending": "assigned cancelled",
    "waiting": "pending cancelled",
    "assigned": "pending waiting processing retrying completed failed timeout cancelled",
    "processing": "pending waiting retrying completed failed timeout cancelled",
    "retrying": "pending cancelled",
    "completed": "",
    "failed": "",
    "timeout": "",
    "cancelled": "",
}


@pytest.mark.parametrize("have", list(TaskStatus))
@pytest.mark.parametrize("want", list(TaskStatus))
def test_the_table_is_what_was_agreed(have: TaskStatus, want: TaskStatus) -> None:
    assert is_legal(have, want) == (want.word in EXPECTED[have.word].split())


def test_every_status_has_its_row() -> None:
    assert set(TRANSITIONS) == set(TaskStatus)


def test_no_status_becomes_itself() -> None:
    assert not [status for status in TaskStatus if is_legal(status, status)]


def test_what_is_final_is_left_only_by_a_persons_retry() -> None:
    assert all(not TRANSITIONS[status] for status in FINAL_STATUSES)
    assert {S.PENDING, S.WAITING} == REOPENED


def test_every_live_status_can_still_end() -> None:
    for status in LIVE_STATUSES:
        seen, edge = {status}, {status}
        while edge:
            edge = {after for have in edge for after in TRANSITIONS[have]} - seen
            seen |= edge
        assert seen & set(FINAL_STATUSES)


def test_live_and_final_are_all_and_apart() -> None:
    assert sorted((*LIVE_STATUSES, *FINAL_STATUSES)) == sorted(TaskStatus)
    assert {status for status in TaskStatus if status.is_final} == {S.COMPLETED, S.FAILED, S.TIMEOUT, S.CANCELLED}


def test_only_a_node_holds_what_is_assigned_or_processing() -> None:
    assert {status for status in TaskStatus if status.is_held} == {S.ASSIGNED, S.PROCESSING}


def test_live_tasks_wait_unless_a_node_holds_them() -> None:
    assert set(WAITING_STATUSES) == {status for status in LIVE_STATUSES if not status.is_held}


def test_the_stored_numbers_never_change() -> None:
    """They stand in databases."""
    assert {status.word: int(status) for status in TaskStatus} == {
        "pending": 0,
        "waiting": 1,
        "assigned": 2,
        "processing": 3,
        "retrying": 4,
        "completed": 10,
        "failed": 11,
        "timeout": 12,
        "cancelled": 13,
    }
    assert {status.word: int(status) for status in ExecutionStatus} == {
        "completed": 1,
        "failed": 2,
        "timeout": 3,
        "cancelled": 4,
        "lost": 5,
        "preempted": 6,
        "returned": 7,
        "parked": 8,
    }
    assert {status.word: int(status) for status in NodeStatus} == {
        "pending": 0,
        "online": 1,
        "maintenance": 2,
        "offline": 3,
        "unresponsive": 4,
    }
    assert [health.word for health in Health] == ["unknown", "healthy", "degraded", "unhealthy"]
    assert [recall.word for recall in Recall] == ["none", "cancel", "deadline", "preempt", "move"]
    assert [error.word for error in ErrorClass] == [
        "network",
        "http",
        "blocked",
        "parse",
        "input",
        "timeout",
        "crash",
        "policy",
        "internal",
    ]


@pytest.mark.parametrize("status", list(TaskStatus))
def test_a_word_is_read_back(status: TaskStatus) -> None:
    assert TaskStatus.of_word(status.word) is status


@pytest.mark.parametrize("word", ["", "PENDING", "Pending", "running", "is_final"])
def test_what_is_no_word_is_refused(word: str) -> None:
    with pytest.raises(KeyError):
        TaskStatus.of_word(word)
