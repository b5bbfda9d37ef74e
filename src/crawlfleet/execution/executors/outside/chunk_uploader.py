"""Upload of executions' items, log lines and WARC records from the agent to a master, in numbered chunks.

A chunk goes up when it is full or a second old. While no master stores it, it waits here and the process gets no
credit, so that the process waits as well. An execution that a master calls stale is stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlencode

import aiohttp
import msgspec
import structlog
import zstandard

from crawlfleet.errors import CrawlfleetError, NotAllowed, NotFound, Unavailable
from crawlfleet.execution.executors.inside.output_stream import encode_log_line
from crawlfleet.execution.master_calls.http_calls import UnknownCrawlError, call_master
from crawlfleet.execution.master_calls.master_directory import MasterDirectory, next_url
from crawlfleet.execution.master_calls.rejections import BELIEVED_S
from crawlfleet.model.ids import ExecutionId, TaskId, execution_text, task_text

log = structlog.get_logger()

CHUNK_BYTES = 256 << 10
CHUNK_S = 1.0
LOG_BYTES = 16 << 20
"""Maximum size of one execution's log; further lines are dropped."""
PUT_S = 30.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 3.0
MAX_CONCURRENT_PUTS = 16
LOG_EVERY_S = 5.0
_JSON_HEADERS = {"Content-Encoding": "zstd"}
_HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "zstd"}

OnCredit = Callable[[int], None]


@dataclass(slots=True)
class _ChunkStream:
    """Pending parts of one kind (items, log or WARC), and the chunks sent of it."""

    name: str
    pending: deque[tuple[bytes, OnCredit]] = field(default_factory=deque)
    pending_bytes: int = 0
    chunks: int = 0
    total_bytes: int = 0
    is_sending: bool = False

    def next_chunk(self) -> list[tuple[bytes, OnCredit]]:
        """The parts of the next chunk: as many as fit, but at least one."""
        parts = [self.pending.popleft()]
        size = len(parts[0][0])
        while self.pending and size + len(self.pending[0][0]) <= CHUNK_BYTES:
            parts.append(self.pending.popleft())
            size += len(parts[-1][0])
        self.pending_bytes -= size
        return parts

    def clear(self) -> None:
        self.pending.clear()
        self.pending_bytes = 0


class ChunkUploader:
    """The uploads of an agent: the master in use, and a limit of concurrent chunks."""

    def __init__(self, session: aiohttp.ClientSession, masters: MasterDirectory, secret: str, rng: Random) -> None:
        self._session = session
        self._masters = masters
        self._secret = secret
        self._rng = rng
        self._master = masters.urls[0]
        self._logged_at = float("-inf")
        self._put_turn = asyncio.Semaphore(MAX_CONCURRENT_PUTS)
        self._compressor = zstandard.ZstdCompressor(level=3)

    async def put(self, path: str, lines: bytes) -> None:
        """PUT lines to a master, retried until one has stored them. Raises the master's objection."""
        await self._call_until_answered("PUT", path, self._compressor.compress(lines), _HEADERS, self._put_turn)

    async def post(self, path: str, body: bytes) -> bytes:
        """POST to a master and return its answer. A long poll, so it does not count as one of the concurrent chunks."""
        return await self._call_until_answered(
            "POST", path, self._compressor.compress(body), _JSON_HEADERS, nullcontext()
        )

    async def fetch_earlier_notes(self, task: int, execution: int, earlier: str, number: int) -> tuple[int, bytes]:
        """Number of parts of an earlier task's page notes, and one of them. Raises the master's objection."""
        path = f"/api/v1/executions/{execution_text(execution)}/earlier/{number}"
        query = urlencode({"task": task_text(task), "of": earlier})
        while True:
            answer = await self._call_until_answered("GET", f"{path}?{query}", b"", None, self._put_turn)
            head, _, lines = answer.partition(b"\n")
            if head.isdigit():
                return int(head), lines
            self._log_waiting(path, Unavailable("an answer that makes no sense"))
            await asyncio.sleep(LONGEST_BACKOFF_S * (0.5 + self._rng.random()))

    async def _call_until_answered(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        turn: AbstractAsyncContextManager[object],
    ) -> bytes:
        failures = 0
        rejected_at: float | None = None
        while True:
            master = self._master
            try:
                async with turn:
                    return await call_master(
                        self._session,
                        method,
                        f"{master}{path}",
                        bearer=self._secret,
                        body=body,
                        within_s=PUT_S,
                        headers=headers,
                    )
            except (Unavailable, NotAllowed, NotFound) as exc:
                now = asyncio.get_running_loop().time()
                if not isinstance(exc, Unavailable):
                    # A master knows for sure when something that an execution asks for does not exist. About the
                    # execution itself it is believed later: mostly a mistake, or the node is removed and stops anyway.
                    rejected_at = rejected_at or now
                    is_sure = isinstance(exc, UnknownCrawlError) or (method == "GET" and isinstance(exc, NotFound))
                    if is_sure or now - rejected_at >= BELIEVED_S:
                        raise
                failures += 1
                self._log_waiting(path, exc)
                if master == self._master:
                    self._master = next_url(self._masters.urls, master)
                backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 20))
                await asyncio.sleep(backoff_s * (0.5 + self._rng.random()))

    def _log_waiting(self, path: str, exc: CrawlfleetError) -> None:
        """Log that chunks wait, at most once in `LOG_EVERY_S` for all of them."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now
            log.warning("chunk_waits", chunk=path.partition("?")[0], error=str(exc))


class ExecutionUpload:
    """The upload of one execution's stream. Costs nothing until there is something to upload."""

    def __init__(
        self,
        uploader: ChunkUploader,
        task: TaskId,
        execution: ExecutionId,
        on_refused: Callable[[CrawlfleetError], None],
    ) -> None:
        self._uploader = uploader
        self._path = f"/api/v1/executions/{execution_text(execution)}"
        self._query = f"?task={task_text(task)}"
        self._on_refused = on_refused
        self._items, self._log, self._records = _ChunkStream("items"), _ChunkStream("log"), _ChunkStream("warc")
        self._item_count = 0
        self._is_cut = False
        self._reported_item_chunks = 0
        """Number of chunks of items that belong to reports sent so far."""
        self._reported_record_chunks = 0
        """Number of chunks of WARC records that belong to reports sent so far."""
        self._pending_event, self._due_event = asyncio.Event(), asyncio.Event()
        """Set when there is something to send, and when it must not wait any longer."""
        self._chunk_stored = asyncio.Event()
        self._is_finishing = False
        self._pump: asyncio.Task[None] | None = None
        self._refusal: CrawlfleetError | None = None

    @property
    def has_content(self) -> bool:
        return self._pump is not None

    def add_items(self, count: int, lines: bytes, credit: OnCredit) -> None:
        self._item_count += count
        self._items.total_bytes += len(lines)
        self._add_part(self._items, lines, credit)

    def add_log(self, lines: bytes, credit: OnCredit) -> None:
        if self._log.total_bytes + len(lines) > LOG_BYTES:
            credit(len(lines))
            if self._is_cut:
                return
            self._is_cut = True
            lines, credit = (
                encode_log_line(f"the log ends here: it is longer than {LOG_BYTES >> 20} MiB", "warning"),
                _no_credit,
            )
        self._log.total_bytes += len(lines)
        self._add_part(self._log, lines, credit)

    def add_records(self, records: bytes, credit: OnCredit) -> None:
        self._records.total_bytes += len(records)
        self._add_part(self._records, records, credit)

    async def wait_for_log_space(self) -> None:
        """Wait while more than a chunk of the log is unsent: back-pressure for the reader of a process's output."""
        while self._log.pending_bytes > CHUNK_BYTES and self._refusal is None:
            self._chunk_stored.clear()
            await self._chunk_stored.wait()

    async def report_crawl(self, body: bytes) -> bytes:
        """Send a crawl report and return the answer. Items added since the last report belong to it, and go first."""
        for kind in (self._items, self._records):
            await self._flush_stream(kind)
        items, records = self._items.chunks, self._records.chunks
        query = f"{self._query}&items={self._reported_item_chunks}-{items}"
        if records > self._reported_record_chunks:
            query += f"&warc={self._reported_record_chunks}-{records}"
        answer = await self._uploader.post(f"{self._path}/crawl{query}", body)
        self._reported_item_chunks, self._reported_record_chunks = items, records
        return answer

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        """Send a request of the execution to a master and return the answer."""
        return await self._uploader.post(f"{self._path}/{endpoint}{self._query}", body)

    async def _flush_stream(self, kind: _ChunkStream) -> None:
        """Upload all pending parts of a stream."""
        while (kind.pending or kind.is_sending) and self._refusal is None:
            self._pending_event.set()
            self._due_event.set()
            self._chunk_stored.clear()
            await self._chunk_stored.wait()
        if self._refusal is not None:
            raise self._refusal

    async def finish(self) -> bytes:
        """Upload everything and return the manifest as JSON. Raises the master's objection."""
        if self._pump is None:
            return b""
        self._send_remaining()
        # A cancellation reaches the caller, not the pump: the canceller decides what becomes of the pump.
        await asyncio.shield(self._pump)
        if self._refusal is not None:
            raise self._refusal
        return self._encode_manifest(self._items, self._records, self._item_count)

    async def abandon(self, log_within_s: float = 0.0) -> bytes:
        """Drop the items of an execution that did not complete, but upload its log; returns the manifest."""
        if self._pump is None:
            return b""
        self._items.clear()
        self._records.clear()
        if log_within_s > 0 and self._refusal is None:
            self._send_remaining()
            await asyncio.wait({self._pump}, timeout=log_within_s)
        self._pump.cancel()
        await asyncio.wait({self._pump})
        return self._encode_manifest(_ChunkStream("items"), _ChunkStream("warc"))

    def _encode_manifest(self, items: _ChunkStream, records: _ChunkStream, count: int = 0) -> bytes:
        manifest = {
            "items": count,
            "item_chunks": items.chunks,
            "item_bytes": items.total_bytes,
            "log_chunks": self._log.chunks,
        }
        if records.chunks:
            manifest |= {"warc_chunks": records.chunks, "warc_bytes": records.total_bytes}
        return msgspec.json.encode(manifest)

    def _send_remaining(self) -> None:
        self._is_finishing = True
        self._pending_event.set()
        self._due_event.set()

    def _add_part(self, kind: _ChunkStream, lines: bytes, credit: OnCredit) -> None:
        if self._refusal is not None:
            return
        kind.pending.append((lines, credit))
        kind.pending_bytes += len(lines)
        self._pending_event.set()
        if self._pump is None:
            self._pump = asyncio.create_task(self._run_pump(), name=f"upload{self._path}")
        if kind.pending_bytes >= CHUNK_BYTES:
            self._due_event.set()

    async def _run_pump(self) -> None:
        try:
            while not self._is_finishing or self._items.pending or self._log.pending or self._records.pending:
                await self._wait_until_due()
                for kind in (self._items, self._log, self._records):
                    while kind.pending:
                        await self._send_chunk(kind)
        except CrawlfleetError as exc:
            self._refusal = exc
            self._chunk_stored.set()
            self._on_refused(exc)

    async def _wait_until_due(self) -> None:
        if self._is_finishing:
            return
        await self._pending_event.wait()
        self._pending_event.clear()
        try:
            async with asyncio.timeout(CHUNK_S):
                await self._due_event.wait()
        except TimeoutError:
            pass
        self._due_event.clear()

    async def _send_chunk(self, kind: _ChunkStream) -> None:
        parts = kind.next_chunk()
        lines = b"".join(part for part, _ in parts)
        kind.is_sending = True
        await self._uploader.put(f"{self._path}/{kind.name}/{kind.chunks}{self._query}", lines)
        kind.is_sending = False
        kind.chunks += 1
        self._chunk_stored.set()
        for part, credit in parts:
            credit(len(part))


def _no_credit(_size: int) -> None:
    pass
