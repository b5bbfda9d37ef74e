"""Items, log lines and archived answers of executions, on their way from the agent to a master, in numbered chunks.

A chunk goes up when it is full or a second old. While no master takes it, it waits here, and nothing more is credited
to the process, so that the process waits as well. An execution that a master calls stale is stopped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from random import Random
from urllib.parse import urlencode

import aiohttp
import msgspec
import structlog
import zstandard

from crawlfleet.errors import CrawlfleetError, NotAllowed, NotFound, Unavailable
from crawlfleet.execution.agent.sync.http_calls import UnknownCrawlError, call_master, normalise_master_url
from crawlfleet.execution.agent.sync.rejections import BELIEVED_S
from crawlfleet.execution.executors.inside.output_stream import log_line
from crawlfleet.model.ids import ExecutionId, TaskId, execution_text, task_text

log = structlog.get_logger()

CHUNK_BYTES = 256 << 10
CHUNK_S = 1.0
LOG_BYTES = 16 << 20
"""Of one execution; what it says beyond that is not kept."""
PUT_S = 30.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 0.1, 3.0
AT_ONCE = 16
TELL_EVERY_S = 5.0
_JSON_HEADERS = {"Content-Encoding": "zstd"}
_HEADERS = {"Content-Type": "application/x-ndjson", "Content-Encoding": "zstd"}

OnCredit = Callable[[int], None]


@dataclass(slots=True)
class _Kind:
    name: str
    pending: deque[tuple[bytes, OnCredit]] = field(default_factory=deque)
    pending_bytes: int = 0
    chunks: int = 0
    total_bytes: int = 0
    is_sending: bool = False

    def take(self) -> list[tuple[bytes, OnCredit]]:
        """As much as one chunk holds, but at least one part."""
        taken = [self.pending.popleft()]
        size = len(taken[0][0])
        while self.pending and size + len(self.pending[0][0]) <= CHUNK_BYTES:
            taken.append(self.pending.popleft())
            size += len(taken[-1][0])
        self.pending_bytes -= size
        return taken

    def clear(self) -> None:
        self.pending.clear()
        self.pending_bytes = 0


class Uploads:
    """One for an agent: which master to send to, and how many chunks at once."""

    def __init__(self, session: aiohttp.ClientSession, masters: Sequence[str], secret: str, rng: Random) -> None:
        self._session = session
        self._masters = [normalise_master_url(url) for url in masters]
        self._secret = secret
        self._rng = rng
        self._current = 0
        self._told_at = float("-inf")
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._compressor = zstandard.ZstdCompressor(level=3)

    async def put(self, path: str, lines: bytes) -> None:
        """Until a master has it. Raises what a master objects to it."""
        await self._ask("PUT", path, self._compressor.compress(lines), _HEADERS, self._turn)

    async def post(self, path: str, body: bytes) -> bytes:
        """A master's answer. It may be long in coming, and so it takes no chunk's turn."""
        return await self._ask("POST", path, self._compressor.compress(body), _JSON_HEADERS, nullcontext())

    async def recollect(self, task: int, execution: int, earlier: str, number: int) -> tuple[int, bytes]:
        """A part of what an earlier task noted of its pages, and of how many. Raises what a master objects to it."""
        path = f"/api/v1/executions/{execution_text(execution)}/earlier/{number}"
        query = urlencode({"task": task_text(task), "of": earlier})
        while True:
            answer = await self._ask("GET", f"{path}?{query}", b"", None, self._turn)
            head, _, lines = answer.partition(b"\n")
            if head.isdigit():
                return int(head), lines
            self._tell(path, Unavailable("an answer that makes no sense"))
            await asyncio.sleep(LONGEST_BACKOFF_S * (0.5 + self._rng.random()))

    async def _ask(
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
            place = self._current
            try:
                async with turn:
                    return await call_master(
                        self._session,
                        method,
                        f"{self._masters[place]}{path}",
                        bearer=self._secret,
                        body=body,
                        within_s=PUT_S,
                        headers=headers,
                    )
            except (Unavailable, NotAllowed, NotFound) as exc:
                now = asyncio.get_running_loop().time()
                if not isinstance(exc, Unavailable):
                    # Of what an execution asks for, a master may know for sure that it is not there. Of the execution
                    # itself it says that only by mistake, or when the node is removed and stops its work anyway.
                    rejected_at = rejected_at or now
                    is_sure = isinstance(exc, UnknownCrawlError) or (method == "GET" and isinstance(exc, NotFound))
                    if is_sure or now - rejected_at >= BELIEVED_S:
                        raise
                failures += 1
                self._tell(path, exc)
                if place == self._current:
                    self._current = (place + 1) % len(self._masters)
                backoff_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(failures - 1, 20))
                await asyncio.sleep(backoff_s * (0.5 + self._rng.random()))

    def _tell(self, path: str, exc: CrawlfleetError) -> None:
        """Of all that wait, one now and again."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            log.warning("chunk_waits", chunk=path.partition("?")[0], error=str(exc))


class Upload:
    """What one execution streams. Costs nothing until it does."""

    def __init__(
        self, uploads: Uploads, task: TaskId, execution: ExecutionId, on_refused: Callable[[CrawlfleetError], None]
    ) -> None:
        self._uploads = uploads
        self._path = f"/api/v1/executions/{execution_text(execution)}"
        self._query = f"?task={task_text(task)}"
        self._on_refused = on_refused
        self._items, self._log, self._records = _Kind("items"), _Kind("log"), _Kind("warc")
        self._item_count = 0
        self._is_cut = False
        self._counted = 0
        """Chunks of items that belong to what was exchanged so far,"""
        self._archived = 0
        """and chunks of records."""
        self._begun, self._due = asyncio.Event(), asyncio.Event()
        """There is something to send, and it must not wait any longer."""
        self._taken = asyncio.Event()
        self._is_finishing = False
        self._pump: asyncio.Task[None] | None = None
        self._refusal: CrawlfleetError | None = None

    @property
    def has_content(self) -> bool:
        return self._pump is not None

    def add_items(self, count: int, lines: bytes, credit: OnCredit) -> None:
        self._item_count += count
        self._items.total_bytes += len(lines)
        self._add(self._items, lines, credit)

    def add_log(self, lines: bytes, credit: OnCredit) -> None:
        if self._log.total_bytes + len(lines) > LOG_BYTES:
            credit(len(lines))
            if self._is_cut:
                return
            self._is_cut = True
            lines, credit = log_line(f"the log ends here: it is longer than {LOG_BYTES >> 20} MiB", "warning"), _nobody
        self._log.total_bytes += len(lines)
        self._add(self._log, lines, credit)

    def add_records(self, records: bytes, credit: OnCredit) -> None:
        self._records.total_bytes += len(records)
        self._add(self._records, records, credit)

    async def has_room(self) -> None:
        """Waits while more of the log is on its way than a chunk holds: for those who can make a process wait."""
        while self._log.pending_bytes > CHUNK_BYTES and self._refusal is None:
            self._taken.clear()
            await self._taken.wait()

    async def exchange(self, body: bytes) -> bytes:
        """A master's answer to a report. What was added since the last one belongs to it, and goes up first."""
        for kind in (self._items, self._records):
            await self._flush(kind)
        items, records = self._items.chunks, self._records.chunks
        query = f"{self._query}&items={self._counted}-{items}"
        if records > self._archived:
            query += f"&warc={self._archived}-{records}"
        answer = await self._uploads.post(f"{self._path}/crawl{query}", body)
        self._counted, self._archived = items, records
        return answer

    async def ask(self, about: str, body: bytes) -> bytes:
        """A master's answer to a question of the execution's."""
        return await self._uploads.post(f"{self._path}/{about}{self._query}", body)

    async def _flush(self, kind: _Kind) -> None:
        """All of it is up."""
        while (kind.pending or kind.is_sending) and self._refusal is None:
            self._begun.set()
            self._due.set()
            self._taken.clear()
            await self._taken.wait()
        if self._refusal is not None:
            raise self._refusal

    async def finish(self) -> bytes:
        """Everything is up: the manifest, as JSON. Raises what a master objected to."""
        if self._pump is None:
            return b""
        self._hurry()
        # Only the caller is cancelled, not the pump: whoever cancels decides what becomes of it.
        await asyncio.shield(self._pump)
        if self._refusal is not None:
            raise self._refusal
        return self._manifest(self._items, self._records, self._item_count)

    async def abandon(self, log_within_s: float = 0.0) -> bytes:
        """The execution did not complete: nobody will count its items, but its last words may help somebody."""
        if self._pump is None:
            return b""
        self._items.clear()
        self._records.clear()
        if log_within_s > 0 and self._refusal is None:
            self._hurry()
            await asyncio.wait({self._pump}, timeout=log_within_s)
        self._pump.cancel()
        await asyncio.wait({self._pump})
        return self._manifest(_Kind("items"), _Kind("warc"))

    def _manifest(self, items: _Kind, records: _Kind, count: int = 0) -> bytes:
        said = {
            "items": count,
            "item_chunks": items.chunks,
            "item_bytes": items.total_bytes,
            "log_chunks": self._log.chunks,
        }
        if records.chunks:
            said |= {"warc_chunks": records.chunks, "warc_bytes": records.total_bytes}
        return msgspec.json.encode(said)

    def _hurry(self) -> None:
        self._is_finishing = True
        self._begun.set()
        self._due.set()

    def _add(self, kind: _Kind, lines: bytes, credit: OnCredit) -> None:
        if self._refusal is not None:
            return
        kind.pending.append((lines, credit))
        kind.pending_bytes += len(lines)
        self._begun.set()
        if self._pump is None:
            self._pump = asyncio.create_task(self._run(), name=f"upload{self._path}")
        if kind.pending_bytes >= CHUNK_BYTES:
            self._due.set()

    async def _run(self) -> None:
        try:
            while not self._is_finishing or self._items.pending or self._log.pending or self._records.pending:
                await self._wait()
                for kind in (self._items, self._log, self._records):
                    while kind.pending:
                        await self._send(kind)
        except CrawlfleetError as exc:
            self._refusal = exc
            self._taken.set()
            self._on_refused(exc)

    async def _wait(self) -> None:
        if self._is_finishing:
            return
        await self._begun.wait()
        self._begun.clear()
        try:
            async with asyncio.timeout(CHUNK_S):
                await self._due.wait()
        except TimeoutError:
            pass
        self._due.clear()

    async def _send(self, kind: _Kind) -> None:
        taken = kind.take()
        lines = b"".join(part for part, _ in taken)
        kind.is_sending = True
        await self._uploads.put(f"{self._path}/{kind.name}/{kind.chunks}{self._query}", lines)
        kind.is_sending = False
        kind.chunks += 1
        self._taken.set()
        for part, credit in taken:
            credit(len(part))


def _nobody(_size: int) -> None:
    pass
