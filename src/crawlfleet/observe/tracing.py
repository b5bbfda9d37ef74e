"""Traces by OpenTelemetry, configured by the variables `OTEL_*` alone. There is no object when they are off: the guard
`if tracing is None` is all that a call costs then.

A task has a span `send QUEUE` when it is submitted (one for a batch), a span `place` (one for a pass of the dispatcher)
links it, and each of its executions is a trace of its own, `process TASK_TYPE`, which is linked to the submission.

The attributes of messages are not stable in OpenTelemetry's conventions yet: this module is the only one that has them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import structlog

from crawlfleet.observe.secret_masking import mask_secrets

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Link, Span, SpanContext

log = structlog.get_logger()

MAX_LINKS = 128
"""Maximum number of links of one span."""
CLOSE_S = 2.0
"""Time in seconds that the last spans have to be sent when a process ends."""
TEXT_CHARS = 2_000
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_IDS = r"(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})"
# Later versions may have more at the end; version ff does not exist.
_TRACEPARENT = re.compile(rf"00-{_IDS}|(?!00|ff)[0-9a-f]{{2}}-{_IDS}(?:-.*)?")
_SYSTEM = "crawlfleet"
_current_trace: ContextVar[str | None] = ContextVar("current_trace", default=None)


def current_trace_id() -> str | None:
    """Return the id of the trace that the caller works in, for log lines; None without one."""
    return _current_trace.get()


def start_tracing(service: str, instance: str, version: str, env: Mapping[str, str] | None = None) -> Tracing | None:
    """Start tracing if the variables ask for it; None otherwise, and also where the extra is not installed."""
    variables = os.environ if env is None else env
    is_off = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or variables.get("OTEL_TRACES_EXPORTER", "otlp").strip() != "otlp":
        return None
    if not any(variables.get(name) for name in _ENDPOINTS):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.warning("tracing_not_installed", hint="pip install 'crawlfleet[tracing]'")
        return None
    # What cannot be sent is counted and logged by the queue; the exporter would log each attempt.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    try:
        return Tracing(service, instance, version, OTLPSpanExporter(), variables)
    except ValueError as exc:
        log.warning("tracing_not_started", error=str(exc), hint="look at the variables OTEL_*")
        return None


@dataclass(frozen=True, slots=True)
class FetchFacts:
    """What is known of one request to a target host."""

    url: str
    began_ns: int
    ended_ns: int
    status: int
    """Status of the answer; 0 without one."""
    error: str
    """Kind of the failure; empty without one."""


class Tracing:
    def __init__(
        self, service: str, instance: str, version: str, exporter: SpanExporter, env: Mapping[str, str] | None = None
    ) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider

        from crawlfleet.observe.span_queue import SpanQueue

        variables = env or {}
        self.queue = SpanQueue(
            exporter,
            max_spans=int(variables.get("OTEL_BSP_MAX_QUEUE_SIZE") or 2_048),
            batch_spans=int(variables.get("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") or 512),
            delay_s=int(variables.get("OTEL_BSP_SCHEDULE_DELAY") or 5_000) / 1000,
        )
        own = {"service.version": version, "service.instance.id": instance}
        if not variables.get("OTEL_SERVICE_NAME"):
            own["service.name"] = service
        limits = SpanLimits(max_links=MAX_LINKS, max_span_attribute_length=TEXT_CHARS)
        provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False, span_limits=limits)
        provider.add_span_processor(self.queue)
        self._tracer = provider.get_tracer("crawlfleet", version)

    def start_send(self, queue: str | None, count: int, header: str | None) -> TraceSpan:
        """Start the span of a submission; `header` is the `traceparent` of its caller, which is ignored if it is
        malformed. Tasks of several queues have no queue."""
        from opentelemetry.trace import NonRecordingSpan, SpanKind, set_span_in_context

        parent = _parse_traceparent(header)
        return TraceSpan(
            self._tracer.start_span(
                f"send {queue}" if queue else "send",
                context=None if parent is None else set_span_in_context(NonRecordingSpan(parent)),
                kind=SpanKind.PRODUCER,
                attributes=_message_attributes("send", queue, {"messaging.batch.message_count": count}),
            )
        )

    def start_place(self) -> TraceSpan:
        """Start the span of one pass of the dispatcher."""
        from opentelemetry.context import Context

        return TraceSpan(self._tracer.start_span("place", context=Context()))

    def start_process(self, task_type: str, task: str, execution: str, retry: int, creation: str) -> TraceSpan:
        """Start the span of an execution, in a trace of its own; `creation` is the context of its submission."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        own = {
            "messaging.message.id": task,
            "crawlfleet.task_type": task_type,
            "crawlfleet.execution": execution,
            "crawlfleet.retry": retry,
        }
        return TraceSpan(
            self._tracer.start_span(
                f"process {task_type}",
                context=Context(),
                kind=SpanKind.CONSUMER,
                attributes=_message_attributes("process", None, own),
                links=_make_links([creation]),
            )
        )

    def add_fetches(self, execution: TraceSpan, fetches: Sequence[FetchFacts]) -> None:
        """Add the requests of an execution, which its process has reported, below its span."""
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        below = set_span_in_context(execution.span)
        for fetch in fetches:
            attributes = _fetch_attributes(fetch)
            span = self._tracer.start_span(
                "GET", context=below, kind=SpanKind.CLIENT, attributes=attributes, start_time=fetch.began_ns
            )
            if "error.type" in attributes:
                span.set_status(Status(StatusCode.ERROR))
            span.end(fetch.ended_ns)

    def close(self) -> None:
        """Send what is left, for a short time."""
        self.queue.close(CLOSE_S)


class TraceSpan:
    """A span that is ended by leaving its context; log lines inside of it have its trace id."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._token: Token[str | None] | None = None

    @property
    def traceparent(self) -> str:
        """The context of the span as a header; empty if it is not sampled."""
        context = self.span.get_span_context()
        if not context.trace_flags.sampled:
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"

    def link_tasks(self, creations: Sequence[str], count: int) -> None:
        """Link the contexts of submissions, as many as a span may have."""
        self.span.set_attribute("messaging.batch.message_count", count)
        for link in _make_links(creations):
            self.span.add_link(link.context)

    def fail(self, error: str, message: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        self.span.set_attribute("error.type", error)
        self.span.set_status(Status(StatusCode.ERROR, mask_secrets(message)[:TEXT_CHARS]))

    def __enter__(self) -> Self:
        context = self.span.get_span_context()
        self._token = _current_trace.set(f"{context.trace_id:032x}" if context.trace_flags.sampled else None)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, _trace: object) -> None:
        if self._token is not None:
            _current_trace.reset(self._token)
        if kind is not None:
            self.fail(kind.__name__, str(exc))
        self.span.end()


def is_sampled(traceparent: str | None) -> bool:
    context = _parse_traceparent(traceparent)
    return context is not None and context.trace_flags.sampled


def _parse_traceparent(header: str | None) -> SpanContext | None:
    """Parse the header; None for one that is malformed, as the specification demands."""
    from opentelemetry.trace import SpanContext, TraceFlags

    match = _TRACEPARENT.fullmatch(header) if header else None
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups() if part is not None)
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags & TraceFlags.SAMPLED))


def _make_links(creations: Sequence[str]) -> list[Link]:
    from opentelemetry.trace import Link

    contexts = [context for each in creations[:MAX_LINKS] if (context := _parse_traceparent(each)) is not None]
    return [Link(context) for context in contexts]


def _message_attributes(operation: str, queue: str | None, own: Mapping[str, Any]) -> dict[str, Any]:
    named = {"messaging.destination.name": queue} if queue else {}
    base = {"messaging.system": _SYSTEM, "messaging.operation.name": operation, "messaging.operation.type": operation}
    return {**base, **named, **own}


def _fetch_attributes(fetch: FetchFacts) -> dict[str, Any]:
    attributes: dict[str, Any] = {"http.request.method": "GET", "url.full": mask_url(fetch.url)}
    try:
        parts = urlsplit(fetch.url)
        if parts.hostname:
            attributes["server.address"] = parts.hostname
            attributes["server.port"] = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        pass  # a URL that cannot be parsed has no host to name
    if fetch.status:
        attributes["http.response.status_code"] = fetch.status
    if fetch.error or fetch.status >= 400:
        attributes["error.type"] = fetch.error or str(fetch.status)
    return attributes


def mask_url(url: str) -> str:
    """Return a URL without the name and the password in it, and without values that are named as secrets."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if separator and "@" in authority:
        url = f"{scheme}://{rest[len(authority.rpartition('@')[0]) + 1 :]}"
    return mask_secrets(url)
