"""Tasks as the device dialect submits them, and their translation into tasks as every other caller submits them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import msgspec

from crawlfleet.api.http.errors import Malformed
from crawlfleet.api.views.tasks import AnObject
from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire import json_error_location
from crawlfleet.wire.field_messages import unknown_name
from crawlfleet.wire.tasks import Label, Name, Retries, TaskBody, Timeout, read_task

_OUR_FIELDS = {
    "task_type": "task_type",
    "params": "parameters",
    "task_name": "name",
    "priority": "priority",
    "timeout": "timeout_s",
    "max_retry_count": "retry.max_retries",
    "scheduled_at": "run_at",
    "project_id": "project_id",
    "depends_on": "depends_on",
    "device_id": "node_id",
}
"""Our field by each field of the dialect."""
_OTHER_NAMES = {"parameters": "params", "task_data": "params", "name": "task_name"}
_THEIR_FIELDS = {ours: theirs for theirs, ours in _OUR_FIELDS.items()} | {"retry": "max_retry_count"}
_OUR_FIELD = re.compile(rf"^({'|'.join(map(re.escape, sorted(_THEIR_FIELDS, reverse=True)))})(?=$|[.\[])")
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NULL = b"null"


class DeviceTask(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task. `parameters` or `task_data` may be said for `params`, and `name` for `task_name`."""

    task_type: Label
    params: AnObject
    task_name: Name | None = None
    priority: Annotated[int, msgspec.Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)] = limits.PRIORITY_DEFAULT
    """1 to 10, 10 first."""
    device_id: Label | None = None
    """Only on this device."""
    timeout: Timeout | None = None
    """Seconds that it may run."""
    max_retry_count: Retries | None = None
    scheduled_at: str | None = None
    """An instant as ISO 8601: it does not start before."""
    project_id: Name | None = None
    depends_on: Annotated[list[Label], msgspec.Meta(max_length=limits.PARENTS)] | None = None
    """Ids of tasks that have to complete before."""


def read_fields(raw: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of a body under the names of the dialect; null counts as left out. Raises Malformed, or
    InvalidInput for a field that there is not, or that is there under two names."""
    try:
        body = _decode_fields(raw)
    except msgspec.ValidationError as exc:
        raise InvalidInput("must be an object", field="body") from exc
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        complaint = json_error_location.find_decode_error(raw) or exc
        raise Malformed(f"the body is not valid JSON: {complaint}") from exc
    fields: dict[str, msgspec.Raw] = {}
    for spelling, value in body.items():
        name = _OTHER_NAMES.get(spelling, spelling)
        if name not in _OUR_FIELDS:
            raise InvalidInput(unknown_name(spelling, [*_OUR_FIELDS]), field=spelling[: limits.NAME_CHARS])
        if name in fields:
            raise InvalidInput(f"is {name}, which is there already", field=spelling)
        if bytes(value) != _NULL:
            fields[name] = value
    for name in ("task_type", "params"):
        if name not in fields:
            raise InvalidInput("is missing", field=name)
    return fields


def read_device_name(fields: Mapping[str, msgspec.Raw]) -> str | None:
    """Return the device that the task is for; None for any. Raises InvalidInput."""
    if "device_id" not in fields:
        return None
    try:
        return msgspec.json.decode(fields["device_id"], type=Label)
    except msgspec.ValidationError as exc:
        raise InvalidInput("must be the id of a device", field="device_id") from exc


def translate_task(fields: Mapping[str, msgspec.Raw], node: NodeId | None) -> TaskBody | Refusal:
    """Return the task, or why it is none. `node` is that of the device it is for."""
    ours: dict[str, msgspec.Raw] = {}
    for name, value in fields.items():
        match name:
            case "device_id":
                continue
            case "max_retry_count":
                ours["retry"] = msgspec.Raw(b'{"max_retries":' + bytes(value) + b"}")
            case _:
                ours[_OUR_FIELDS[name]] = value
    if node is not None:
        ours["node_id"] = msgspec.Raw(msgspec.json.encode(node_text(node)))
    body = read_task(msgspec.json.encode(ours))
    return translate_refusal(body) if isinstance(body, Refusal) else body


def translate_refusal(refusal: Refusal) -> Refusal:
    """Return a refusal that names the dialect's field."""
    if refusal.field is None or refusal.code is Code.IDEMPOTENCY_MISMATCH:
        return refusal
    return replace(refusal, field=translate_field(refusal.field))


def translate_field(field: str) -> str:
    return _OUR_FIELD.sub(lambda match: _THEIR_FIELDS[match[1]], field)
