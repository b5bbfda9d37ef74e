"""Answers of the queue dialect: its six status words, instants as seconds since 1970, exactly its own fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from crawlfleet.api.http.responses import schema_ref
from crawlfleet.api.views.tasks import AnObject, RefusedItem, last_error, last_result, task_spec, updated_at
from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.figures.task_figures import (
    STARTED,
    TASKS_CANCELLED,
    TASKS_COMPLETED,
    TASKS_FAILED,
    TASKS_TIMEOUT,
    average_run_ms,
    failure_rate,
)
from crawlfleet.model.ids import task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.task_store import Accepted

QueueStatus = Literal["pending", "running", "success", "failed", "cancelled", "retrying"]
STATUS_WORDS: Mapping[TaskStatus, QueueStatus] = {
    TaskStatus.PENDING: "pending",
    TaskStatus.WAITING: "pending",
    TaskStatus.ASSIGNED: "pending",
    TaskStatus.PROCESSING: "running",
    TaskStatus.RETRYING: "retrying",
    TaskStatus.COMPLETED: "success",
    TaskStatus.FAILED: "failed",
    TaskStatus.TIMEOUT: "failed",
    TaskStatus.CANCELLED: "cancelled",
}
Seconds = Annotated[float, msgspec.Meta(description="Seconds since 1970, UTC.")]


class QueueTaskView(msgspec.Struct, frozen=True):
    """A task as the queue dialect shows it."""

    id: str
    type: str
    status: QueueStatus
    priority: int
    params: AnObject
    created_at: Seconds
    updated_at: Seconds
    started_at: Seconds | None
    finished_at: Seconds | None
    retry_count: int
    max_retries: int
    error_message: str | None
    result: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"type": ["object", "null"]})]
    """What its execution returned; below `data` where that is no object."""
    depends_on: list[str]


class QueueSubmitted(msgspec.Struct, frozen=True):
    """A task that was stored."""

    task_id: str
    status: Literal["submitted"] = "submitted"


class QueueRefused(msgspec.Struct, frozen=True):
    """A task of a batch that was not."""

    error: RefusedItem
    status: Literal["refused"] = "refused"


class QueueBatchAnswer(msgspec.Struct, frozen=True):
    """The tasks of a batch that were stored."""

    task_ids: list[str]
    status: Literal["submitted", "partial", "refused"]
    """`partial` and `refused` only with `atomic` false: some, or none, were stored."""
    results: (
        Annotated[
            list[Any],
            msgspec.Meta(
                extra_json_schema={"items": {"anyOf": [schema_ref(QueueSubmitted), schema_ref(QueueRefused)]}}
            ),
        ]
        | msgspec.UnsetType
    ) = msgspec.UNSET
    """One answer per task, in order; only with `atomic` false."""


class QueueCancelled(msgspec.Struct, frozen=True):
    """A task after it was cancelled."""

    task_id: str
    status: Literal["cancelled", "cancelling"]
    """`cancelling` while its node stops it."""


class QueueCancelAnswer(msgspec.Struct, frozen=True):
    """Many tasks after they were cancelled."""

    cancelled: list[str]
    cancelling: list[str]
    """Those whose nodes are stopping them."""
    refused: dict[str, str]
    """Why each of the others was not cancelled, by its id."""


class QueueSizes(msgspec.Struct, frozen=True):
    """How many tasks wait, by priority class; those that wait for a retry by themselves."""

    high_queue_size: int
    normal_queue_size: int
    low_queue_size: int
    retry_queue_size: int


class QueueEnds(msgspec.Struct, frozen=True):
    """Tasks that ended, by status."""

    success: int
    failed: int
    """Those that took too long among them."""
    cancelled: int


class QueueTaskStats(msgspec.Struct, frozen=True):
    """What happened to tasks."""

    started: dict[str, int]
    """Executions that started, by task type."""
    completed: QueueEnds
    avg_duration: float | None
    """Average duration in seconds of the executions that ran to their end; null without any."""
    failure_rate: float | None
    """Part of the tasks that ended as failed, 0 to 1, cancelled ones aside; null without any."""


def queue_task_stats(total: Sequence[int], by_type: Mapping[str, Sequence[int]]) -> QueueTaskStats:
    """Return the statistics of the figures of all tasks, and of those of each type."""
    average_ms = average_run_ms(total)
    return QueueTaskStats(
        {name: row[STARTED] for name, row in sorted(by_type.items()) if row[STARTED]},
        QueueEnds(total[TASKS_COMPLETED], total[TASKS_FAILED] + total[TASKS_TIMEOUT], total[TASKS_CANCELLED]),
        None if average_ms is None else average_ms / 1000,
        failure_rate(total),
    )


def queue_task_view(
    record: TaskRecord, executions: Sequence[ExecutionRecord], unrun_result: bytes | None
) -> QueueTaskView:
    """Return the view of a task. `unrun_result` is that of a step of a flow that had no execution of its own."""
    spec = task_spec(record)
    result = last_result(record, executions) if unrun_result is None else unrun_result
    return QueueTaskView(
        id=task_text(record.id),
        type=record.task_type,
        status=STATUS_WORDS[record.status],
        priority=record.priority,
        params=msgspec.Raw(record.parameters),
        created_at=record.created_at / 1000,
        updated_at=updated_at(record, executions) / 1000,
        started_at=_seconds(record.started_at),
        finished_at=_seconds(record.ended_at),
        retry_count=record.retries,
        max_retries=spec.retry.max_retries,
        error_message=_error_message(record, executions),
        result=_as_object(result),
        depends_on=spec.depends_on,
    )


def batch_answer(items: Sequence[Accepted | Refusal], *, is_atomic: bool) -> QueueBatchAnswer:
    """Return the answer to a batch; none of the items of an atomic one is refused."""
    task_ids = [task_text(item.id) for item in items if isinstance(item, Accepted)]
    if is_atomic:
        return QueueBatchAnswer(task_ids, "submitted")
    results = [
        QueueRefused(RefusedItem(str(item.code), item.detail, item.field))
        if isinstance(item, Refusal)
        else QueueSubmitted(task_text(item.id))
        for item in items
    ]
    if not task_ids:
        return QueueBatchAnswer(task_ids, "refused", results)
    return QueueBatchAnswer(task_ids, "submitted" if len(task_ids) == len(items) else "partial", results)


def _error_message(record: TaskRecord, executions: Sequence[ExecutionRecord]) -> str | None:
    error = last_error(record, executions)
    message = None if error is None else error.message
    match record.status:
        case TaskStatus.CANCELLED:
            return record.reason or message
        case TaskStatus.TIMEOUT:
            return f"timeout: {message or record.reason or 'it took too long'}"
        case TaskStatus.FAILED:
            return message or record.reason
        case _:
            return message


def _as_object(result: bytes | None) -> msgspec.Raw:
    if result is None:
        return msgspec.Raw(b"null")
    return msgspec.Raw(result if result[:1] == b"{" else b'{"data":' + result + b"}")


def _seconds(instant: Instant | None) -> float | None:
    return None if instant is None else instant / 1000
