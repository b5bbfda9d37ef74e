"""Rows of tasks and executions: `live`, `done`, `execution` and `dead_letter`, by the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from crawlfleet.model.execution import ExecutionRecord, Failure
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import DeadLetter, FinalTask, LiveTask, RetryPolicy
from crawlfleet.ports.task_store import Accepted, SubmissionAnswer
from crawlfleet.store import schema
from crawlfleet.store.row_codec import RowCodec, encode_json, plain_values, sql_values

# The field is called `group` everywhere but in SQL, where that is a keyword.
LIVE = RowCodec(schema.live, LiveTask, columns={"group": "group_id"})
DONE = RowCodec(schema.done, FinalTask, columns={"group": "group_id"})
LIVE_COLUMNS, DONE_COLUMNS = LIVE.columns, DONE.columns
COMPLETED_COLUMNS = (*DONE_COLUMNS, "session", "result", "metrics")
"""Columns of `done` for a task whose completing execution is kept in the same row."""
STATUSES = {int(status): status for status in TaskStatus}
RECALLS = {int(recall): recall for recall in Recall}
_STATUS, _RECALL = LIVE_COLUMNS.index("status"), LIVE_COLUMNS.index("recall")

_policy = msgspec.json.Decoder(dict[str, Any])


class ExecutionRow(NamedTuple):
    """A row of `execution`."""

    id: ExecutionId
    task: TaskId
    round: int
    retry: int
    node: NodeId
    session: int
    status: int
    assigned_at: Instant
    started_at: Instant | None
    ended_at: Instant
    error: int | None
    message: str | None
    """Message of the failure, or why the execution ended otherwise."""
    is_permanent: int
    result: bytes | None
    metrics: bytes | None


class DeadLetterRow(NamedTuple):
    """A row of `dead_letter`."""

    task: TaskId
    round: int
    project: str
    task_type: str
    cause: str
    error: int | None
    message: str | None
    is_permanent: int
    buried_at: Instant


EXECUTION_COLUMNS = ExecutionRow._fields
DEAD_LETTER_COLUMNS = DeadLetterRow._fields


def new_live_values(**given: str) -> str:
    """Return SQL expressions of a new pending row of `live`: the given ones, and otherwise the constants of
    `LiveTask.new`."""
    constants = zip(LIVE_COLUMNS, plain_values(LiveTask.new(0, 0, 0)), strict=True)
    return sql_values(
        LIVE_COLUMNS, {name: "NULL" if value is None else str(value) for name, value in constants} | given
    )


def completed_values(source: str, **given: str) -> str:
    """Return SQL expressions of the row of `done` that a completed row of `live` becomes, with its execution's
    columns."""
    status = {"status": f"{TaskStatus.COMPLETED:d}", "reason": "NULL"}
    return sql_values(COMPLETED_COLUMNS, status | given, source)


def live_task_from_row(row: Sequence[Any]) -> LiveTask:
    values = list(row)
    values[_STATUS] = STATUSES[values[_STATUS]]
    values[_RECALL] = RECALLS[values[_RECALL]]
    return LiveTask._make(values)


def failure_from_columns(error: int | None, message: str | None, is_permanent: int) -> Failure | None:
    return None if error is None else Failure(ErrorClass(error), message or "", bool(is_permanent))


def kept_in_done(where: str = "TRUE") -> str:
    """Return the SELECT of the executions that completed their task, as rows of `execution`."""
    kept = {
        "id": "execution",
        "task": "id",
        "retry": "retries",
        "status": f"{ExecutionStatus.COMPLETED:d}",
        "error": "NULL",
        "message": "NULL",
        "is_permanent": "0",
    }
    values = (f"{kept[column]} AS {column}" if column in kept else column for column in EXECUTION_COLUMNS)
    return f"SELECT {', '.join(values)} FROM done WHERE session IS NOT NULL AND {where}"


def all_ended_executions() -> str:
    return f"SELECT {', '.join(EXECUTION_COLUMNS)} FROM execution UNION ALL {kept_in_done()} ORDER BY id"


def execution_from_row(row: Sequence[Any]) -> ExecutionRecord:
    columns = ExecutionRow._make(row)
    return ExecutionRecord(
        id=columns.id,
        task=columns.task,
        round=columns.round,
        retry=columns.retry,
        node=columns.node,
        session=columns.session,
        status=ExecutionStatus(columns.status),
        assigned_at=columns.assigned_at,
        started_at=columns.started_at,
        ended_at=columns.ended_at,
        failure=failure_from_columns(columns.error, columns.message, columns.is_permanent),
        result=_optional_bytes(columns.result),
        metrics=_optional_bytes(columns.metrics),
    )


def dead_letter_from_row(row: Sequence[Any]) -> DeadLetter:
    columns = DeadLetterRow._make(row)
    return DeadLetter(
        task=columns.task,
        round=columns.round,
        project=columns.project,
        task_type=columns.task_type,
        cause=columns.cause,
        failure=failure_from_columns(columns.error, columns.message, columns.is_permanent),
        buried_at=columns.buried_at,
    )


def _optional_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def retry_policy(spec: bytes | None) -> RetryPolicy:
    if spec is None:
        return _DEFAULT_POLICY
    retry = _policy.decode(spec).get("retry")
    return RetryPolicy(**retry) if retry else _DEFAULT_POLICY


def spec_traceparent(spec: bytes | None) -> str:
    """Return the context of the span that submitted the task. Most tasks have none, and their spec is not decoded."""
    if spec is None or _TRACED not in spec:
        return ""
    return str(_policy.decode(spec).get("traceparent", ""))


_TRACED = b'"traceparent"'
_DEFAULT_POLICY = RetryPolicy()


def encode_answer(answer: SubmissionAnswer) -> bytes:
    items = [
        list(item) if isinstance(item, Accepted) else [item.code, item.detail, item.field] for item in answer.items
    ]
    return encode_json(items if answer.group is None else {"group": answer.group, "items": items})


def decode_answer(body: bytes) -> SubmissionAnswer:
    items: list[Accepted | Refusal] = []
    stored = msgspec.json.decode(body)
    group, listed = (stored["group"], stored["items"]) if isinstance(stored, dict) else (None, stored)
    for item in listed:
        if isinstance(item[0], int):
            items.append(Accepted(item[0], STATUSES[item[1]], item[2], item[3]))
        else:
            items.append(Refusal(Code(item[0]), item[1], item[2]))
    return SubmissionAnswer(items, is_replay=True, group=group)
