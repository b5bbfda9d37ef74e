"""What an executor says, brought within bounds: it may be a stranger's code, and its words end up in the store."""

from __future__ import annotations

import msgspec

from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.products import products_in
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody


def bounded(said: OutcomeBody, assignment: AssignmentBody) -> OutcomeBody:
    """The outcome as it may be reported; a failure when what was said makes no sense."""
    try:
        end = End(said.end)
        error = ErrorClass(said.error) if said.error else None
        result = _bounded_json(said.result, limits.RESULT_BYTES, "result")
        metrics = _bounded_json(said.metrics, limits.METRICS_BYTES, "metrics")
        if said.products:
            products_in(said.products)
            _check_size(said)
    except ValueError as exc:
        return failed(assignment, f"the executor's answer cannot be used: {exc}")
    if error is None and end is End.FAILED:
        error = ErrorClass.INTERNAL
    return OutcomeBody(
        task=assignment.task,
        execution=assignment.execution,
        end=end,
        error=error or 0,
        message=bounded_text(said.message),
        is_permanent=said.is_permanent,
        result=result,
        metrics=metrics,
        again_ms=said.again_ms if end is End.RETURNED else 0,
        cause=said.cause,
        subject=bounded_text(said.subject)[: limits.HOST_CHARS],
        used=said.used,
        products=said.products if end is End.COMPLETED else [],
    )


def bounded_metrics(metrics: msgspec.Raw) -> msgspec.Raw:
    """Of an execution that was stopped: what makes no sense is nothing."""
    try:
        return _bounded_json(metrics, limits.METRICS_BYTES, "metrics")
    except ValueError:
        return NULL


def failed(assignment: AssignmentBody, message: str) -> OutcomeBody:
    return OutcomeBody(
        task=assignment.task,
        execution=assignment.execution,
        end=End.FAILED,
        error=ErrorClass.INTERNAL,
        message=bounded_text(message),
    )


def bounded_text(text: str) -> str:
    """Without what no database keeps (NUL, unpaired surrogates), and cut to the longest message taken."""
    if not text:
        return text
    clean = text[: limits.MESSAGE_CHARS].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode("utf-8")


def _check_size(said: OutcomeBody) -> None:
    """Raises ValueError for an outcome that is larger than what its parts may have: raw products may be padded."""
    size = sum(map(len, said.products))
    if size > limits.OUTCOME_BYTES:
        raise ValueError(f"products of {size:,} bytes; at most {limits.OUTCOME_BYTES:,} come with an outcome")


def _bounded_json(raw: msgspec.Raw, limit_bytes: int, name: str) -> msgspec.Raw:
    """Raises ValueError for what is not JSON."""
    text = bytes(raw)
    if not text:
        return NULL
    if len(text) > limit_bytes:
        notice = {"truncated": True, "size_bytes": len(text), "limit_bytes": limit_bytes}
        return msgspec.Raw(msgspec.json.encode(notice))
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise ValueError(f"{name} is not JSON ({exc})") from exc
    return msgspec.Raw(text)
