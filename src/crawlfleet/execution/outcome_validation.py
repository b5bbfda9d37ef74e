"""Validation of executors' outcomes: user code writes them, and they end up in the store."""

from __future__ import annotations

import msgspec

from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.products import decode_products
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody


def validate_outcome(outcome: OutcomeBody, assignment: AssignmentBody) -> OutcomeBody:
    """The outcome as it may be reported; a failure when the executor's outcome is invalid."""
    try:
        end = End(outcome.end)
        error = ErrorClass(outcome.error) if outcome.error else None
        result = _validate_json(outcome.result, limits.RESULT_BYTES, "result")
        metrics = _validate_json(outcome.metrics, limits.METRICS_BYTES, "metrics")
        if outcome.products:
            decode_products(outcome.products)
            _check_products_size(outcome)
    except ValueError as exc:
        return failed_outcome(assignment, f"the executor's answer cannot be used: {exc}")
    if error is None and end is End.FAILED:
        error = ErrorClass.INTERNAL
    return OutcomeBody(
        task=assignment.task,
        execution=assignment.execution,
        end=end,
        error=error or 0,
        message=clean_text(outcome.message),
        is_permanent=outcome.is_permanent,
        result=result,
        metrics=metrics,
        again_ms=outcome.again_ms if end is End.RETURNED else 0,
        cause=outcome.cause,
        subject=clean_text(outcome.subject)[: limits.HOST_CHARS],
        used=outcome.used,
        products=outcome.products if end is End.COMPLETED else [],
    )


def validate_metrics(metrics: msgspec.Raw) -> msgspec.Raw:
    """Metrics of a stopped execution; NULL when they are invalid."""
    try:
        return _validate_json(metrics, limits.METRICS_BYTES, "metrics")
    except ValueError:
        return NULL


def failed_outcome(assignment: AssignmentBody, message: str) -> OutcomeBody:
    return OutcomeBody(
        task=assignment.task,
        execution=assignment.execution,
        end=End.FAILED,
        error=ErrorClass.INTERNAL,
        message=clean_text(message),
    )


def clean_text(text: str) -> str:
    """Text without characters that databases refuse (NUL, unpaired surrogates), cut to the maximum length."""
    if not text:
        return text
    clean = text[: limits.MESSAGE_CHARS].replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return clean.encode("utf-8", "replace").decode("utf-8")


def _check_products_size(outcome: OutcomeBody) -> None:
    """Raises ValueError for products that are larger than an outcome may be: raw products may be padded."""
    size = sum(map(len, outcome.products))
    if size > limits.OUTCOME_BYTES:
        raise ValueError(f"products of {size:,} bytes; at most {limits.OUTCOME_BYTES:,} come with an outcome")


def _validate_json(raw: msgspec.Raw, limit_bytes: int, name: str) -> msgspec.Raw:
    """JSON within the limit, or a notice in its place. Raises ValueError for anything but JSON."""
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
