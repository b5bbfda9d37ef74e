"""A small OTLP/HTTP receiver for tests: it keeps the spans that were sent to it, and may refuse or hold requests."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    links: list[tuple[str, str]]
    """Trace and span of each link."""
    attributes: dict[str, Any]
    resource: dict[str, Any] = field(default_factory=dict)
    is_error: bool = False
    began_ns: int = 0
    ended_ns: int = 0

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-01"


class TraceReceiver:
    """Serves `/v1/traces` on a port of its own, in threads."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.status = 200
        self.gate = threading.Event()
        """Requests are answered only while it is set."""
        self.gate.set()
        self.arrived = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.gate.wait()
                if receiver.status == 200:
                    receiver.keep_spans(ExportTraceServiceRequest.FromString(body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Write nothing: tests read standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

    def keep_spans(self, request: ExportTraceServiceRequest) -> None:
        with self.arrived:
            for resource_spans in request.resource_spans:
                resource = _values(resource_spans.resource.attributes)
                for scope in resource_spans.scope_spans:
                    self.spans += [_read_span(span, resource) for span in scope.spans]
            self.arrived.notify_all()

    def named(self, start: str) -> list[ReceivedSpan]:
        with self.arrived:
            return [span for span in self.spans if span.name.startswith(start)]

    def wait_for(self, is_enough: Callable[[list[ReceivedSpan]], bool], within_s: float) -> list[ReceivedSpan]:
        """Wait until the spans that have arrived are enough, and return them."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: is_enough(self.spans), within_s), [span.name for span in self.spans]
            return list(self.spans)


def _read_span(span: Any, resource: dict[str, Any]) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        KINDS.get(span.kind, "?"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        _values(span.attributes),
        resource,
        span.status.code == 2,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _values(pairs: list[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
