"""The output stream of one execution in its process: items and log lines sent to the agent, within a window.

Items wait for credit. Log lines cannot wait (`log` is no coroutine): those over the limit are dropped and counted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from crawlfleet.execution.executors.protocol import (
    ITEM_BYTES,
    Items,
    LogLines,
    MasterRequest,
    ProgressFigures,
    WarcRecords,
)
from crawlfleet.execution.sdk import TaskError
from crawlfleet.model import limits
from crawlfleet.model.product import Product
from crawlfleet.wire.products import OUTCOME_PRODUCTS, product_body

SEND_BYTES = 32 << 10
SEND_S = 0.1
PROGRESS_S = 1.0
"""Delay of progress figures: short executions report them with their end only."""
MAX_LINE_CHARS = 8_000
MAX_FIGURES = 100
_ENCODE_ERRORS = (TypeError, ValueError, OverflowError, RecursionError)


def encode_json(value: object) -> bytes:
    """Encode a value as JSON. Raises ValueError for a value that is not JSON."""
    try:
        return msgspec.json.encode(value)
    except _ENCODE_ERRORS as exc:
        raise ValueError(f"not JSON: {exc}") from exc


def encode_log_line(message: str, level: str) -> bytes:
    text = message if len(message) <= MAX_LINE_CHARS else f"{message[:MAX_LINE_CHARS]}..."
    line = {"at": time.time_ns() // 1_000_000, "level": level, "message": text.encode("utf-8", "replace").decode()}
    return msgspec.json.encode(line) + b"\n"


class OutputStream:
    """Implements `sdk.TaskStream`."""

    def __init__(
        self,
        execution: int,
        send: Callable[[Items | LogLines | WarcRecords | ProgressFigures | MasterRequest, int], None],
        window_bytes: int,
    ) -> None:
        self._execution = execution
        self._send = send
        self._window_bytes = window_bytes
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._items: list[bytes] = []
        self._lines: list[bytes] = []
        self._records: list[bytes] = []
        self._buffered = 0
        self._uncredited = 0
        self._dropped = 0
        self._credited: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.figures: dict[str, Any] = {}
        self._sent_figures = b""
        self._is_progress_due = False
        self._progress_timer: asyncio.TimerHandle | None = None
        self._answer: asyncio.Future[bytes] | None = None
        self._request_lock = asyncio.Lock()
        self._products: list[bytes] = []

    async def item(self, item: Mapping[str, Any]) -> None:
        if not isinstance(item, Mapping):
            raise TaskError(f"an item is a mapping, not {type(item).__name__}", error="input", permanent=True)
        try:
            line = encode_json(dict(item)) + b"\n"
        except ValueError as exc:
            raise TaskError(f"an item is {exc}", error="input", permanent=True) from exc
        if len(line) > ITEM_BYTES:
            raise TaskError(f"an item of {len(line)} bytes; at most {ITEM_BYTES}", error="input", permanent=True)
        await self._wait_for_window(len(line))
        self._items.append(line)
        self._count_bytes(len(line))

    async def record(self, record: bytes) -> None:
        await self._wait_for_window(len(record))
        self._records.append(record)
        self._count_bytes(len(record))

    async def report_crawl(self, body: bytes) -> bytes:
        """Implements `sdk.MasterLink`, as `send_request` does."""
        # Items streamed so far belong to this report.
        self.flush()
        return await self.send_request("crawl", body)

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        async with self._request_lock:
            self._answer = self._loop.create_future()
            self._send(MasterRequest(self._execution, body, endpoint), len(body))
            return await self._answer

    async def product(self, product: Product) -> None:
        """Keep a product for the outcome; when there are too many for one, the earlier ones are sent ahead."""
        body = encode_json(product_body(product))
        if len(body) > limits.PRODUCT_BYTES:
            message = f"a product of {len(body)} bytes; at most {limits.PRODUCT_BYTES}"
            raise TaskError(message, error="input", permanent=True)
        self._products.append(body)
        if len(self._products) > OUTCOME_PRODUCTS:
            await self.send_products()

    async def send_products(self) -> None:
        batch, self._products = self._products, []
        if batch:
            await self.send_request("products", b"[[%s]]" % b",".join(batch))

    @property
    def last_products(self) -> bytes:
        return b"[%s]" % b",".join(self._products) if self._products else b""

    def set_answer(self, body: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(body)

    def log(self, message: str, level: str) -> None:
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._add_log_line, message, level)
        else:
            self._add_log_line(message, level)

    def progress(self, figures: Mapping[str, Any]) -> None:
        if figures.keys() <= self.figures.keys():
            self.figures.update(figures)
        else:
            free_count = MAX_FIGURES - len(self.figures)
            updated = {name: value for name, value in figures.items() if name in self.figures}
            added = [pair for pair in figures.items() if pair[0] not in self.figures]
            self.figures.update(updated | dict(added[:free_count]))
        if not self._is_progress_due:
            self._is_progress_due = True
            if threading.get_ident() != self._thread:
                self._loop.call_soon_threadsafe(self._schedule_progress)
            else:
                self._schedule_progress()

    def add_credit(self, size: int) -> None:
        self._uncredited = max(0, self._uncredited - size)
        if self._credited is not None:
            self._credited.set()

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._items:
            lines = b"".join(self._items)
            self._send(Items(self._execution, len(self._items), lines), len(lines))
            self._items.clear()
        if self._records:
            records = b"".join(self._records)
            self._send(WarcRecords(self._execution, records), len(records))
            self._records.clear()
        if self._dropped and self._may_log:
            self._lines.append(encode_log_line(f"{self._dropped} lines dropped: they came too fast", "warning"))
            self._dropped = 0
        if self._lines:
            lines = b"".join(self._lines)
            self._send(LogLines(self._execution, lines), len(lines))
            self._lines.clear()
        self._buffered = 0

    def close(self) -> None:
        self.flush()
        if self._progress_timer is not None:
            self._progress_timer.cancel()

    def encode_metrics(self) -> bytes:
        """The last progress figures as JSON; empty when they are not JSON or too large."""
        if not self.figures:
            return b""
        try:
            encoded = encode_json(self.figures)
        except ValueError:
            return b""
        return encoded if len(encoded) <= limits.METRICS_BYTES // 2 else b""

    async def _wait_for_window(self, size: int) -> None:
        while self._uncredited and self._uncredited + size > self._window_bytes:
            self.flush()
            self._credited = self._credited or asyncio.Event()
            self._credited.clear()
            await self._credited.wait()

    def _schedule_progress(self) -> None:
        self._progress_timer = self._loop.call_later(PROGRESS_S, self._send_progress)

    def _send_progress(self) -> None:
        self._is_progress_due = False
        figures = self.encode_metrics()
        if figures and figures != self._sent_figures and len(figures) <= limits.PROGRESS_BYTES:
            self._sent_figures = figures
            self._send(ProgressFigures(self._execution, figures), len(figures))

    @property
    def _may_log(self) -> bool:
        return self._uncredited < 2 * self._window_bytes

    def _add_log_line(self, message: str, level: str) -> None:
        if not self._may_log:
            self._dropped += 1
            return
        line = encode_log_line(str(message), level)
        self._lines.append(line)
        self._count_bytes(len(line))

    def _count_bytes(self, size: int) -> None:
        self._uncredited += size
        self._buffered += size
        if self._buffered >= SEND_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(SEND_S, self.flush)
