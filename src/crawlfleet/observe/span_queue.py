"""The queue of ended spans on their way to the collector: bounded, sent by a thread, and every lost span is counted."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

import structlog
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = structlog.get_logger()

REPORT_EVERY_S = 60.0
"""Minimum time between two log lines about lost spans."""


class SpanQueue(SpanProcessor):
    def __init__(self, exporter: SpanExporter, *, max_spans: int, batch_spans: int, delay_s: float) -> None:
        self._exporter = exporter
        self._max_spans = max_spans
        self._batch_spans = batch_spans
        self._delay_s = delay_s
        self._spans: deque[ReadableSpan] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_closing = False
        self._reported_at = float("-inf")
        self.delivered = 0
        """Number of spans that the collector has accepted."""
        self.dropped = 0
        """Number of spans that were lost: the queue was full, or the collector did not accept them."""
        # A daemon: a collector that hangs does not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._thread.start()

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is None or not span.context.trace_flags.sampled:
            return
        with self._lock:
            if len(self._spans) >= self._max_spans or self._is_closing:
                self.dropped += 1
                return
            self._spans.append(span)
            is_batch = len(self._spans) >= self._batch_spans
        if is_batch:
            self._wake.set()

    def close(self, within_s: float) -> None:
        """Send what is left, for at most this long."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._delay_s)
            self._wake.clear()
            self._send_all()
        self._send_all()
        self._exporter.shutdown()

    def _send_all(self) -> None:
        while batch := self._pop_batch():
            is_delivered = self._send(batch)
            with self._lock:
                if is_delivered:
                    self.delivered += len(batch)
                else:
                    self.dropped += len(batch)
        self._report_dropped()

    def _pop_batch(self) -> Sequence[ReadableSpan]:
        with self._lock:
            return [self._spans.popleft() for _ in range(min(self._batch_spans, len(self._spans)))]

    def _send(self, batch: Sequence[ReadableSpan]) -> bool:
        try:
            return self._exporter.export(batch) is SpanExportResult.SUCCESS
        except Exception:
            # The thread has to live on, whatever a collector answers.
            log.exception("spans_not_sent", spans=len(batch))
            return False

    def _report_dropped(self) -> None:
        if self.dropped and time.monotonic() - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = time.monotonic()
            log.warning("spans_dropped", dropped=self.dropped, delivered=self.delivered)
