"""What the queue dialect shows of a task: words, seconds and messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from crawlfleet.api.dialects.queue_views import STATUS_WORDS, batch_answer, queue_task_stats, queue_task_view
from crawlfleet.model.execution import ExecutionRecord, Failure
from crawlfleet.model.figures.task_figures import (
    COMPLETED,
    FAILED,
    RAN_MS,
    STARTED,
    TASKS_CANCELLED,
    TASKS_COMPLETED,
    TASKS_FAILED,
    TASKS_TIMEOUT,
    empty_row,
)
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.task_store import Accepted

RECORD = TaskRecord(
    id=1,
    project="",
    workflow=None,
    name=None,
    task_type="echo",
    queue="default",
    priority=5,
    created_at=1_000,
    parameters=b'{"n":1}',
    spec=b'{"retry":{"max_retries":7},"depends_on":["task-0000000000000009"]}',
    status=TaskStatus.PENDING,
    round=1,
    retries=2,
    losses=0,
    deaths=0,
    waits=0,
    due_at=None,
    timeout_s=60,
    recall=Recall.NONE,
    node=None,
    execution=3,
    assigned_at=None,
    started_at=2_500,
    ended_at=None,
    reason=None,
    lane=1,
)


def show(status: TaskStatus, *executions: ExecutionRecord, reason: str | None = None) -> dict[str, Any]:
    record = replace(RECORD, status=status, reason=reason)
    shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(queue_task_view(record, executions, None)))
    return shown


def ended(status: ExecutionStatus, *, result: bytes | None = None, message: str | None = None) -> ExecutionRecord:
    failure = None if message is None else Failure(ErrorClass.HTTP, message)
    return ExecutionRecord(
        id=3,
        task=1,
        node=1,
        session=1,
        round=1,
        retry=0,
        status=status,
        assigned_at=2_000,
        started_at=2_500,
        ended_at=4_000,
        failure=failure,
        result=result,
        metrics=None,
    )


def test_instants_are_seconds_and_the_spec_is_read() -> None:
    shown = show(TaskStatus.PROCESSING)
    assert (shown["created_at"], shown["started_at"], shown["finished_at"]) == (1.0, 2.5, None)
    assert (shown["updated_at"], shown["retry_count"], shown["max_retries"]) == (2.5, 2, 7)
    assert shown["depends_on"] == ["task-0000000000000009"]
    assert show(TaskStatus.RETRYING, ended(ExecutionStatus.FAILED, message="x"))["updated_at"] == 4.0


@pytest.mark.parametrize(
    ("status", "message", "reason", "shown"),
    [
        (TaskStatus.FAILED, "no page", "out of retries", "no page"),
        (TaskStatus.FAILED, None, "a parent failed", "a parent failed"),
        (TaskStatus.TIMEOUT, "ran for 60 s", None, "timeout: ran for 60 s"),
        (TaskStatus.TIMEOUT, None, None, "timeout: it took too long"),
        (TaskStatus.CANCELLED, "no page", "cancelled by request", "cancelled by request"),
        (TaskStatus.RETRYING, "no page", None, "no page"),
        (TaskStatus.COMPLETED, "no page", None, None),
        (TaskStatus.PENDING, None, None, None),
    ],
)
def test_the_message_says_why(status: TaskStatus, message: str | None, reason: str | None, shown: str | None) -> None:
    executions = [] if message is None else [ended(ExecutionStatus.FAILED, message=message)]
    assert show(status, *executions, reason=reason)["error_message"] == shown


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (b'{"product_id":"1"}', {"product_id": "1"}),
        (b"[1,2]", {"data": [1, 2]}),
        (b"null", {"data": None}),
        (b'"text"', {"data": "text"}),
        (None, None),
    ],
)
def test_a_result_is_an_object_or_nothing(result: bytes | None, shown: Any) -> None:
    assert show(TaskStatus.COMPLETED, ended(ExecutionStatus.COMPLETED, result=result))["result"] == shown
    assert show(TaskStatus.FAILED, ended(ExecutionStatus.FAILED, result=result))["result"] is None


def test_the_answer_to_a_batch_has_one_result_for_each_task() -> None:
    stored, refused = Accepted(1, TaskStatus.PENDING, 0, 5), Refusal(Code.UNKNOWN_TYPE, "no such type", "type")
    batches: list[list[Accepted | Refusal]] = [[stored], [stored, refused], [refused]]
    answers = [batch_answer(items, is_atomic=False) for items in batches]
    assert [(answer.status, len(answer.task_ids)) for answer in answers] == [
        ("submitted", 1),
        ("partial", 1),
        ("refused", 0),
    ]
    assert list(msgspec.to_builtins(batch_answer([stored], is_atomic=True))) == ["task_ids", "status"]


def test_every_status_has_a_word() -> None:
    assert set(STATUS_WORDS) == set(TaskStatus)


def test_statistics_are_those_of_the_figures() -> None:
    row = empty_row()
    row[STARTED], row[TASKS_COMPLETED], row[TASKS_FAILED], row[TASKS_TIMEOUT], row[TASKS_CANCELLED] = 9, 6, 1, 1, 4
    row[COMPLETED], row[FAILED], row[RAN_MS] = 6, 2, 12_000
    shown = msgspec.to_builtins(queue_task_stats(row, {"b": row, "a": row, "none": empty_row()}))
    assert shown == {
        "started": {"a": 9, "b": 9},
        "completed": {"success": 6, "failed": 2, "cancelled": 4},
        "avg_duration": 1.5,
        "failure_rate": 0.25,
    }
