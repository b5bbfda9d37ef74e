"""Bodies of the queue dialect, and their translation into tasks as every other caller submits them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Annotated, Literal

import msgspec

from crawlfleet.api.routes.tasks.submit import unreadable_body_error
from crawlfleet.api.views.tasks import AnObject
from crawlfleet.errors import InvalidInput
from crawlfleet.model import instants, limits
from crawlfleet.model.instants import ms
from crawlfleet.model.queue import PriorityClasses
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire import json_error_location
from crawlfleet.wire.tasks import (
    RETRY_UNSET,
    Label,
    Name,
    Retries,
    RetryWanted,
    TaskBody,
    check_task,
    refusal_from_error,
)

PRIORITY = Annotated[int, msgspec.Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)]
_OUR_FIELDS = {"task_type": "type", "parameters": "params", "retry.max_retries": "max_retries"}
_OUR_FIELD = re.compile(rf"^({'|'.join(map(re.escape, _OUR_FIELDS))})(?=$|[.\[])")


class QueueTask(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task as the queue dialect submits it."""

    type: Label
    params: AnObject
    priority: PRIORITY | Literal["high", "normal", "low"] = limits.PRIORITY_DEFAULT
    """1 to 10, 10 first; or the name of a class, for the number that it begins with."""
    max_retries: Retries | None = None
    depends_on: Annotated[list[Label], msgspec.Meta(max_length=limits.PARENTS)] | None = None
    run_at: float | str | None = None
    """Seconds since 1970 in UTC, or an instant as ISO 8601: it does not start before."""
    queue: Label = "default"
    project_id: Name | None = None


class QueueBatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Up to 10,000 tasks: all or none of them, or with `atomic` false those that are right."""

    tasks: Annotated[list[QueueTask], msgspec.Meta(min_length=1, max_length=limits.BATCH_TASKS)]
    atomic: bool = True


class _RawBatch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    tasks: list[msgspec.Raw]
    atomic: bool = True


_decode_task = msgspec.json.Decoder(QueueTask).decode
_decode_batch = msgspec.json.Decoder(_RawBatch).decode


def read_task(raw: bytes, classes: PriorityClasses) -> TaskBody | Refusal:
    """Read the body of one task. Raises Malformed or InvalidInput when it is none."""
    try:
        task = _decode_task(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise unreadable_body_error(raw, exc, "body", QueueTask) from exc
    return _translate_task(task, classes)


def read_batch(raw: bytes, classes: PriorityClasses) -> tuple[list[TaskBody | Refusal], bool]:
    """Read the tasks of a batch, each of them read or refused, and whether they are stored all or none. Raises
    Malformed or InvalidInput when the body is no batch."""
    try:
        batch = _decode_batch(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise unreadable_body_error(raw, exc, "tasks", _RawBatch) from exc
    if not 0 < len(batch.tasks) <= limits.BATCH_TASKS:
        raise InvalidInput(f"a batch has 1 to {limits.BATCH_TASKS} tasks", field="tasks")
    return [_read_member(member, classes) for member in batch.tasks], batch.atomic


def translate_field(field: str | None) -> str | None:
    """Return the field of the dialect for a field of a task."""
    return None if field is None else _OUR_FIELD.sub(lambda match: _OUR_FIELDS[match.group(1)], field)


def translate_refusal(refusal: Refusal) -> Refusal:
    """Return the refusal with the field of the dialect."""
    return replace(refusal, field=translate_field(refusal.field))


def _read_member(raw: msgspec.Raw, classes: PriorityClasses) -> TaskBody | Refusal:
    try:
        return _translate_task(_decode_task(raw), classes)
    except msgspec.ValidationError as exc:
        return refusal_from_error(exc, QueueTask)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        fault = json_error_location.find_fault(bytes(raw))
        return Refusal(Code.INVALID_INPUT, fault.detail if fault else str(exc), fault.field if fault else None)


def _translate_task(task: QueueTask, classes: PriorityClasses) -> TaskBody | Refusal:
    priority = classes.find_priority(task.priority) if isinstance(task.priority, str) else task.priority
    run_at = task.run_at
    if isinstance(run_at, float):
        if not (math.isfinite(run_at) and 0 <= ms(run_at) <= instants.LAST):
            return Refusal(Code.INVALID_INPUT, "seconds since 1970, up to the year 9999", "run_at")
        run_at = instants.to_text(ms(run_at))
    return check_task(
        TaskBody(
            task_type=task.type,
            parameters=task.params,
            project_id=task.project_id,
            priority=limits.PRIORITY_DEFAULT if priority is None else priority,
            queue=task.queue,
            depends_on=task.depends_on or [],
            run_at=run_at,
            retry=RETRY_UNSET if task.max_retries is None else RetryWanted(task.max_retries),
        )
    )
