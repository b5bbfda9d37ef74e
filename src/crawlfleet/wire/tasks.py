"""The body of a submitted task, and the functions that read a batch of them.

Types, bounds and unknown fields are checked by the decoder; what a decoder cannot see (depth, NUL, numbers that no
database holds) is searched in the raw bytes, which costs nothing when there is nothing to find.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from crawlfleet.model import limits
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.wire import json_error_location
from crawlfleet.wire.field_messages import decoder_message

Label = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.LABEL_CHARS)]
Name = Annotated[str, msgspec.Meta(max_length=limits.NAME_CHARS)]
Labels = Annotated[list[Label], msgspec.Meta(max_length=limits.LABELS)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


Retries = Annotated[int, msgspec.Meta(ge=0, le=limits.RETRIES_MAX)]
Delay = Annotated[float, msgspec.Meta(ge=0, le=limits.RETRY_BASE_DELAY_S_MAX)]
LongDelay = Annotated[float, msgspec.Meta(ge=0, le=limits.RETRY_DELAY_S_MAX)]
Timeout = Annotated[int, msgspec.Meta(ge=1, le=limits.TIMEOUT_S_MAX)]


class RetryBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    max_retries: Retries = 3
    base_delay_s: Delay = 2.0
    max_delay_s: LongDelay = 300.0


class RetryWanted(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """What a task says of its retries; for what is left out the cluster's configuration holds."""

    max_retries: Retries | msgspec.UnsetType = msgspec.UNSET
    base_delay_s: Delay | msgspec.UnsetType = msgspec.UNSET
    max_delay_s: LongDelay | msgspec.UnsetType = msgspec.UNSET


RETRY_UNSET = RetryWanted()


class TaskBody(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    task_type: Label
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    project_id: Name | None = None
    workflow_id: Name | None = None
    name: Name | None = None
    cluster: Label | None = None
    priority: Annotated[int, msgspec.Meta(ge=limits.PRIORITY_MIN, le=limits.PRIORITY_MAX)] = limits.PRIORITY_DEFAULT
    min_resources: Annotated[dict[Label, Amount], msgspec.Meta(max_length=limits.LABELS)] = {}
    capabilities: Annotated[dict[Label, bool | float | Label | Labels], msgspec.Meta(max_length=limits.LABELS)] = {}
    node_type: Label | None = None
    schedule_strategy: Label | None = None
    target_region: Label | None = None
    require_region: bool = False
    content_features: dict[Label, Any] = {}
    categories: Labels = []
    queue: Label = "default"
    depends_on: Annotated[list[Label], msgspec.Meta(max_length=limits.PARENTS)] = []
    run_at: str | None = None
    group_id: Label | None = None
    timeout_s: Timeout | msgspec.UnsetType = msgspec.UNSET
    """Left out: as the cluster's configuration says."""
    retry: RetryWanted = RETRY_UNSET
    preemptible: bool = False
    """May be stopped, at no cost of a retry, when something of higher priority finds no room."""
    node_id: Label | None = None
    """Only on this node, by its id."""


class SpecBody(msgspec.Struct, omit_defaults=True, frozen=True):
    """The part of a body that the store keeps beside its columns; absent when everything has its default."""

    cluster: str | None = None
    min_resources: dict[str, float] = {}
    capabilities: dict[str, Any] = {}
    node_type: str | None = None
    schedule_strategy: str | None = None
    target_region: str | None = None
    require_region: bool = False
    content_features: dict[str, Any] = {}
    categories: list[str] = []
    depends_on: list[str] = []
    retry: RetryBody = RetryBody()
    preemptible: bool = False
    run_at: str | None = None
    node_id: str | None = None


_TEXT_FIELDS = (
    "task_type",
    "project_id",
    "workflow_id",
    "name",
    "cluster",
    "queue",
    "node_type",
    "schedule_strategy",
    "target_region",
)
_TEXTS = attrgetter(*_TEXT_FIELDS)
_BATCH_DECODER = msgspec.json.Decoder(list[TaskBody])
_TASK_DECODER = msgspec.json.Decoder(TaskBody)
_RAW_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_PATH = re.compile(r" - at `\$\.?(.*?)`$")
_UNKNOWN_FIELD = re.compile(r"unknown field `(.*?)`")
_MISSING_FIELD = re.compile(r"missing required field `(.*?)`")
_PATH_CHARS = 1_000
_FLAT = bytes.maketrans(b"123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"000000000abcdefghijklmnopqrstuvwxyz")
"""Translation table from digits to zeros and from capitals to small letters."""


def read_tasks(body: bytes) -> list[TaskBody | Refusal]:
    """Return the tasks of a JSON array, each read or refused. Raises msgspec.MsgspecError when it is no array at
    all."""
    try:
        tasks: Sequence[TaskBody | Refusal] = _BATCH_DECODER.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        tasks = [read_task(raw) for raw in _decode_array(body)]
    # The whole body is examined once: what it does not contain, no task in it contains.
    is_plain = not _is_odd(body)
    return [check_task(task, is_plain=is_plain) if isinstance(task, TaskBody) else task for task in tasks]


def read_task(raw: bytes | msgspec.Raw, *, max_bytes: int = limits.PARAMETERS_BYTES) -> TaskBody | Refusal:
    """Read one task. `max_bytes` is the limit of its parameters, which differs where they are still to be split."""
    try:
        return check_task(_TASK_DECODER.decode(raw), max_bytes=max_bytes)
    except msgspec.ValidationError as exc:
        return refusal_from_error(exc, TaskBody)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        if fault := json_error_location.find_fault(bytes(raw)):
            return Refusal(Code.INVALID_INPUT, fault.detail, fault.field)
        return Refusal(Code.INVALID_INPUT, _error_text(exc))


def task_body(fields: Mapping[str, Any]) -> TaskBody | Refusal:
    """Return a task from Python values, under the same rules as one from the wire."""
    try:
        # Not encoded by msgspec, which writes null for a number that is not finite.
        return read_task(json.dumps(fields, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as exc:
        return Refusal(Code.INVALID_INPUT, f"cannot be written as JSON: {exc}")


def value_refusal(value: Any, field: str) -> Refusal | None:
    """Return why a value that came as JSON cannot be stored, under the same rules."""
    try:
        raw = json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        return Refusal(Code.INVALID_INPUT, f"cannot be written as JSON: {exc}", field)
    return _walk_refusal(raw, field)


def check_task(
    task: TaskBody, *, is_plain: bool = False, max_bytes: int = limits.PARAMETERS_BYTES
) -> TaskBody | Refusal:
    """Return the task, or why its contents cannot be stored. `is_plain`: it came in a body that has nothing odd in
    it."""
    raw = bytes(task.parameters)
    if len(raw) > max_bytes:
        detail = f"{len(raw)} bytes; at most {max_bytes} are taken"
        return Refusal(Code.TOO_LARGE, detail, "parameters")
    if raw[:1] != b"{":
        return Refusal(Code.INVALID_INPUT, "must be an object", "parameters")
    is_suspicious = _may_be_deep(raw) if is_plain else _is_suspicious(raw)
    if is_suspicious and (refusal := _walk_refusal(raw, "parameters")):
        return refusal
    if task.content_features:
        features = msgspec.json.encode(task.content_features)
        if len(features) > limits.METRICS_BYTES:
            return Refusal(Code.TOO_LARGE, f"at most {limits.METRICS_BYTES} bytes are taken", "content_features")
        if _is_suspicious(features) and (refusal := _walk_refusal(features, "content_features")):
            return refusal
    if (mistake := _find_mistake(task)) is not None:
        return mistake
    return task if is_plain else _text_refusal(task) or task


def refusal_from_error(exc: msgspec.MsgspecError, kind: Any = None) -> Refusal:
    """Translate the decoder's error about a `kind` of body into words, with the field as people write it."""
    text = str(exc)
    field = path = place.group(1) if (place := _PATH.search(text)) else None
    detail = _PATH.sub("", text)
    if field_match := _UNKNOWN_FIELD.search(text) or _MISSING_FIELD.search(text):
        field = f"{field}.{field_match.group(1)}" if field else field_match.group(1)
    return Refusal(Code.INVALID_INPUT, decoder_message(detail, kind, path or ""), field)


def _decode_array(body: bytes) -> Sequence[bytes | msgspec.Raw]:
    try:
        return _RAW_DECODER.decode(body)
    except msgspec.ValidationError:
        raise
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        if (pieces := json_error_location.split_array(body)) is None:
            raise msgspec.DecodeError(_error_text(exc)) from exc
        return pieces


def _error_text(exc: Exception) -> str:
    match exc:
        case RecursionError():
            return json_error_location.DEPTH_MESSAGE
        case UnicodeDecodeError():
            return json_error_location.UTF8_MESSAGE
        case _:
            return str(exc)


def _is_suspicious(raw: bytes) -> bool:
    return _may_be_deep(raw) or _is_odd(raw)


def _may_be_deep(raw: bytes) -> bool:
    return raw.count(b"{") + raw.count(b"[") > limits.JSON_DEPTH


def _is_odd(raw: bytes) -> bool:
    """Whether there may be a NUL, half a surrogate, or a number that is too long for databases or not finite."""
    # With every digit made a zero, the search is for fixed strings: many times quicker than a pattern.
    flat = raw.translate(_FLAT)
    return (
        not raw.isascii()
        or b"\\u0000" in flat
        or b"\\ud" in flat
        or b"e000" in flat
        or b"e+000" in flat
        or b"0" * 18 in flat
    )


def _walk_refusal(raw: bytes, field: str) -> Refusal | None:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as exc:
        return Refusal(Code.INVALID_INPUT, json_error_location.find_decode_error(raw) or str(exc), field)
    stack: list[tuple[Any, str, int]] = [(value, field, 1)]
    while stack:
        value, path, depth = stack.pop()
        if problem := _value_problem(value, depth):
            return Refusal(Code.INVALID_INPUT, problem, _shorten_path(path))
        if isinstance(value, dict):
            for key, inner in value.items():
                if problem := _value_problem(key, depth):
                    return Refusal(Code.INVALID_INPUT, f"a key {problem}", _shorten_path(path))
                stack.append((inner, f"{path}.{key}"[:_PATH_CHARS], depth + 1))
        elif isinstance(value, list):
            stack.extend((inner, f"{path}[{position}]", depth + 1) for position, inner in enumerate(value))
    return None


def _shorten_path(path: str) -> str:
    return path if len(path) <= limits.NAME_CHARS else f"{path[: limits.NAME_CHARS]}..."


def _value_problem(value: Any, depth: int) -> str | None:
    if depth > limits.JSON_DEPTH:
        return json_error_location.DEPTH_MESSAGE
    if isinstance(value, str):
        return storage_problem(value)
    if isinstance(value, int) and value.bit_length() > limits.INTEGER_BITS:
        return f"has an integer of more than {limits.INTEGER_BITS} bits"
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is not finite"
    return None


def storage_problem(text: str) -> str | None:
    """Return why no database can keep this text, or None if one can."""
    if "\x00" in text:
        return "has a NUL character"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "has an unpaired surrogate"
    return None


def _find_mistake(task: TaskBody) -> Refusal | None:
    """Return a refusal for values that fit their fields and are meaningless."""
    for name, value in task.capabilities.items() if task.capabilities else ():
        if isinstance(value, float) and value < 0:
            return Refusal(
                Code.INVALID_INPUT, "a number is a least amount, 0 or more", _shorten_path(f"capabilities.{name}")
            )
    return None


def _text_refusal(task: TaskBody) -> Refusal | None:
    texts = _TEXTS(task)
    # All texts are checked together first: nearly every task is plain.
    together = "".join(filter(None, texts))
    if not together.isascii() or "\x00" in together:
        for field, value in zip(_TEXT_FIELDS, texts, strict=True):
            if value is not None and (problem := storage_problem(value)):
                return Refusal(Code.INVALID_INPUT, problem, field)
    if task.min_resources or task.capabilities or task.categories:
        for field in ("min_resources", "capabilities", "categories"):
            if problem := _first_problem(getattr(task, field)):
                return Refusal(Code.INVALID_INPUT, problem, field)
    return None


def _first_problem(labels: Any) -> str | None:
    """Return the first error in the texts of a label, a list of labels, or a mapping to such."""
    if isinstance(labels, str):
        return storage_problem(labels)
    if isinstance(labels, dict):
        return next(filter(None, map(_first_problem, (*labels, *labels.values()))), None)
    if isinstance(labels, list):
        return next(filter(None, map(_first_problem, labels)), None)
    return None
