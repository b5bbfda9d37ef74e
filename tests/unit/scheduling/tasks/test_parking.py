"""Parking: a task whose host or quota is away gives its slot back, and comes back on time at no cost."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.control.tasks import finish
from crawlfleet.execution.budget.host_gate import HostAway
from crawlfleet.execution.budget.quota_meter import OverQuota, QuotaRefusal
from crawlfleet.execution.executors.inside import process_loop
from crawlfleet.execution.sdk import TryLater
from crawlfleet.model import limits
from crawlfleet.model.event import Kind
from crawlfleet.model.execution import End, Failure, Outcome, ParkCause, ParkRequest
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import LiveTask, ParkedTask, RetryPolicy, TaskTransition
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.wire.sync import OutcomeBody
from tests.unit.scheduling.tasks.test_task_state_machine import (
    ASSIGNED,
    EXECUTION,
    HELD,
    NODE,
    NOT_HELD,
    NOW,
    PENDING,
    TASK,
    assert_off_its_node,
)

AWAY = Failure(ErrorClass.BLOCKED, "host a is away")
HOST = ParkRequest(5_000, ParkCause.HOST_BACKOFF, "a.example")


def parked(
    row: LiveTask, park: ParkRequest = HOST, times: int = 0, policy: RetryPolicy | None = None, seed: int = 1
) -> TaskTransition:
    outcome = Outcome(NODE, TASK, EXECUTION, End.RETURNED, AWAY, park=park)
    step = task_state_machine.finish_execution({TASK: outcome}, NOW, Random(seed), {TASK: times})(
        row, policy or RetryPolicy()
    )
    assert isinstance(step, TaskTransition)
    return step


@pytest.mark.parametrize("row", HELD)
def test_a_parked_task_waits_off_its_node_at_no_cost(row: LiveTask) -> None:
    step = parked(row._replace(retries=2, losses=1))
    after = step.after
    assert (after.status, after.retries, after.losses, after.deaths) == (TaskStatus.WAITING, 2, 1, 0)
    assert_off_its_node(after)
    assert (step.kind, step.ended, step.failure) == (Kind.TASK_PARKED, ExecutionStatus.PARKED, None)
    assert step.parking == ParkedTask(ParkCause.HOST_BACKOFF, "a.example", NOW + 5_000, 1, "host a is away")


@given(span_ms=st.integers(1, limits.PARK_MS_MAX), seed=st.integers(0, 1_000))
def test_nothing_comes_back_before_its_time_or_long_after(span_ms: int, seed: int) -> None:
    due_at = parked(ASSIGNED, ParkRequest(span_ms), seed=seed).after.due_at
    assert due_at is not None
    assert NOW + span_ms <= due_at <= NOW + span_ms + max(1_000, min(span_ms // 10, 60_000))


def test_those_that_wait_for_the_same_do_not_come_back_together() -> None:
    rng, outcome = Random(1), Outcome(NODE, TASK, EXECUTION, End.RETURNED, AWAY, park=HOST)
    decide = task_state_machine.finish_execution({TASK: outcome}, NOW, rng)
    due = [
        step.after.due_at for _ in range(1_000) if isinstance(step := decide(ASSIGNED, RetryPolicy()), TaskTransition)
    ]
    assert max(due.count(at) for at in due) < 10


@pytest.mark.parametrize(
    ("recall", "status"),
    [
        (Recall.CANCEL, TaskStatus.CANCELLED),
        (Recall.PREEMPT, TaskStatus.PENDING),
        (Recall.MOVE, TaskStatus.PENDING),
        (Recall.DEADLINE, TaskStatus.RETRYING),
    ],
)
def test_a_recall_comes_before_parking(recall: Recall, status: TaskStatus) -> None:
    step = parked(ASSIGNED._replace(recall=recall))
    assert (step.after.status, step.parking) == (status, None)


def test_what_is_never_to_be_had_is_a_failure_in_the_end() -> None:
    last = parked(ASSIGNED, times=task_state_machine.MAX_PARKINGS - 1)
    assert (last.after.status, last.parking and last.parking.times) == (
        TaskStatus.WAITING,
        task_state_machine.MAX_PARKINGS,
    )
    failed = parked(ASSIGNED, times=task_state_machine.MAX_PARKINGS)
    assert (failed.after.status, failed.after.retries, failed.parking) == (TaskStatus.RETRYING, 1, None)
    dead = parked(ASSIGNED, times=task_state_machine.MAX_PARKINGS, policy=RetryPolicy(max_retries=0))
    assert (dead.after.status, dead.is_dead_letter) == (TaskStatus.FAILED, True)
    assert dead.reason == "parked 100 times in vain, the last time because host a is away"


def test_only_what_is_parked_is_unparked() -> None:
    row = parked(ASSIGNED).after
    step = task_state_machine.unpark_task(row, RetryPolicy())
    assert isinstance(step, TaskTransition)
    assert (step.after.status, step.after.due_at) == (TaskStatus.PENDING, None)
    for other in (*HELD, *NOT_HELD, PENDING, row._replace(waits=1)):
        assert isinstance(task_state_machine.unpark_task(other, RetryPolicy()), Refusal)


SPAN = 3_000


@pytest.mark.parametrize(
    ("said", "park"),
    [
        ({"cause": 1, "subject": "a.example"}, ParkRequest(SPAN, ParkCause.HOST_BACKOFF, "a.example")),
        ({"cause": 2, "subject": "pages"}, ParkRequest(SPAN, ParkCause.DAILY_QUOTA, "pages")),
        ({}, ParkRequest(SPAN)),
        ({"cause": 0, "subject": "x"}, ParkRequest(SPAN)),
        ({"cause": 77, "subject": "a.example"}, ParkRequest(SPAN)),
        ({"cause": 1, "subject": ""}, ParkRequest(SPAN)),
        ({"cause": 1, "subject": "a\x00b"}, ParkRequest(SPAN)),
        ({"cause": 1, "subject": "a" * 999}, ParkRequest(SPAN, ParkCause.HOST_BACKOFF, "a" * limits.HOST_CHARS)),
        ({"again_ms": 10**30}, ParkRequest(25 * 3_600_000)),
        ({"again_ms": -5}, None),
        ({"end": int(End.FAILED)}, None),
    ],
)
def test_what_a_confused_node_says_is_bounded(said: dict[str, object], park: ParkRequest | None) -> None:
    body = OutcomeBody(**{"task": TASK, "execution": EXECUTION, "end": int(End.RETURNED), "again_ms": SPAN, **said})  # type: ignore[arg-type]
    outcome = finish._read_outcome(NODE, body, NOW)
    assert isinstance(outcome, Outcome)
    assert outcome.park == park


@pytest.mark.parametrize(
    ("later", "cause", "subject"),
    [
        (HostAway("away.example", 9.5), ParkCause.HOST_BACKOFF, "away.example"),
        (OverQuota(QuotaRefusal("pages_per_day", "shop", "x", 9_500)), ParkCause.DAILY_QUOTA, "shop"),
        (TryLater("x", 9.5), ParkCause.LATER, ""),
    ],
)
def test_an_execution_says_what_it_waits_for(later: TryLater | OverQuota, cause: ParkCause, subject: str) -> None:
    said = process_loop._parking_fields(later)
    assert (said["again_ms"], said.get("cause", 0), said.get("subject", "")) == (9_500, cause, subject)


@pytest.mark.parametrize("after_s", [-1.0, float("nan"), float("inf")])
def test_what_is_no_span_is_the_executors_mistake(after_s: float) -> None:
    with pytest.raises(ValueError, match="after_s"):
        TryLater("x", after_s)
    assert process_loop._parking_fields(TryLater("x", 0.0)) == {"again_ms": 1, "cause": 0, "subject": ""}
