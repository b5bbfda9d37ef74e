"""How records are kept in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.execution import ExecutionRecord, Failure
from crawlfleet.model.flow import StepSpec
from crawlfleet.model.node import Measurement, NodeDescription
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Recall, TaskStatus
from crawlfleet.model.task import FinalTask, LiveTask, RetryPolicy
from crawlfleet.ports.task_store import Accepted, SubmissionAnswer

# Called `group` everywhere but in SQL, where that is a word of the language.
LIVE_COLUMNS = (*LiveTask._fields[:-1], "group_id")
DONE_COLUMNS = (*FinalTask._fields[:-1], "group_id")
COMPLETED_COLUMNS = (*DONE_COLUMNS, "session", "result", "metrics")
"""Columns of `done` for a task whose completing execution is kept in the same row."""
STATUSES = {int(status): status for status in TaskStatus}
RECALLS = {int(recall): recall for recall in Recall}
_STATUS, _RECALL = LIVE_COLUMNS.index("status"), LIVE_COLUMNS.index("recall")

_encode = msgspec.json.Encoder().encode
_policy = msgspec.json.Decoder(dict[str, Any])


def sql_values(columns: Sequence[str], given: Mapping[str, str], source: str = "") -> str:
    """SQL expressions in the order of `columns`: the given ones, and otherwise the column of that name in `source`."""
    if unknown := given.keys() - set(columns):
        raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
    return ", ".join(given.get(column, f"{source}{column}") for column in columns)


def new_live_values(**given: str) -> str:
    """SQL expressions of a new pending row of `live`: the given ones, and otherwise the constants of `LiveTask.new`."""
    constants = zip(LIVE_COLUMNS, plain(LiveTask.new(0, 0, 0)), strict=True)
    return sql_values(
        LIVE_COLUMNS, {name: "NULL" if value is None else str(value) for name, value in constants} | given
    )


def completed_values(source: str, **given: str) -> str:
    """SQL expressions of the row of `done` that a completed row of `live` becomes, with its execution's columns."""
    status = {"status": f"{TaskStatus.COMPLETED:d}", "reason": "NULL"}
    return sql_values(COMPLETED_COLUMNS, status | given, source)


def live_task(row: Sequence[Any]) -> LiveTask:
    values = list(row)
    values[_STATUS] = STATUSES[values[_STATUS]]
    values[_RECALL] = RECALLS[values[_RECALL]]
    return LiveTask._make(values)


def encode(value: Any) -> bytes:
    return _encode(value)


def decode(body: bytes) -> Any:
    return msgspec.json.decode(body)


def encode_events(batches: Sequence[EventBatch]) -> bytes:
    return _encode([(batch.kind, batch.each, batch.shared) for batch in batches])


def decode_events(body: bytes) -> list[EventBatch]:
    return [EventBatch(Kind(kind), each, shared) for kind, each, shared in msgspec.json.decode(body)]


def retry_policy(spec: bytes | None) -> RetryPolicy:
    if spec is None:
        return _DEFAULT_POLICY
    retry = _policy.decode(spec).get("retry")
    return RetryPolicy(**retry) if retry else _DEFAULT_POLICY


_DEFAULT_POLICY = RetryPolicy()


def encode_answer(answer: SubmissionAnswer) -> bytes:
    items = [
        list(item) if isinstance(item, Accepted) else [item.code, item.detail, item.field] for item in answer.items
    ]
    return _encode(items if answer.group is None else {"group": answer.group, "items": items})


def decode_answer(body: bytes) -> SubmissionAnswer:
    items: list[Accepted | Refusal] = []
    said = msgspec.json.decode(body)
    group, listed = (said["group"], said["items"]) if isinstance(said, dict) else (None, said)
    for item in listed:
        if isinstance(item[0], int):
            items.append(Accepted(item[0], STATUSES[item[1]], item[2], item[3]))
        else:
            items.append(Refusal(Code(item[0]), item[1], item[2]))
    return SubmissionAnswer(items, is_replay=True, group=group)


def plain(row: Sequence[object]) -> tuple[Any, ...]:
    """Enum members as the integers they are: drivers are quicker with the real thing."""
    return tuple(int(value) if isinstance(value, int) else value for value in row)


def step_spec(body: bytes) -> StepSpec:
    return msgspec.json.decode(body, type=StepSpec)


def requirement(body: bytes) -> Requirement:
    return msgspec.json.decode(body, type=Requirement)


@lru_cache(maxsize=16_384)
def description(body: bytes) -> NodeDescription:
    """Remembered: the leader reads those of all nodes every second, and they hardly ever change."""
    return msgspec.json.decode(body, type=NodeDescription)


def measurement(body: bytes | None) -> Measurement | None:
    return None if body is None else msgspec.json.decode(body, type=Measurement)


def failure(error: int | None, message: str | None, is_permanent: int) -> Failure | None:
    return None if error is None else Failure(ErrorClass(error), message or "", bool(is_permanent))


EXECUTION_COLUMNS = (
    "id",
    "task",
    "round",
    "retry",
    "node",
    "session",
    "status",
    "assigned_at",
    "started_at",
    "ended_at",
    "error",
    "message",
    "is_permanent",
    "result",
    "metrics",
)


def kept_in_done(where: str = "TRUE") -> str:
    """Executions that completed their task, as rows of `execution`."""
    return (
        "SELECT execution AS id, id AS task, round, retries AS retry, node, session, "
        f"{ExecutionStatus.COMPLETED:d} AS status, assigned_at, started_at, ended_at, NULL AS error, NULL AS message, "
        "0 AS is_permanent, result, metrics FROM done "
        f"WHERE session IS NOT NULL AND {where}"
    )


def all_ended_executions() -> str:
    return f"SELECT {', '.join(EXECUTION_COLUMNS)} FROM execution UNION ALL {kept_in_done()} ORDER BY id"


def execution_record(row: Sequence[Any]) -> ExecutionRecord:
    ended = (ExecutionStatus(row[6]), row[7], row[8], row[9], failure(row[10], row[11], row[12]))
    return ExecutionRecord(*(*row[:6], *ended, _bytes(row[13]), _bytes(row[14])))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def details(body: bytes) -> Mapping[str, Any]:
    decoded: Mapping[str, Any] = msgspec.json.decode(body)
    return decoded
