"""One execution in a process, as its agent sees it: what comes from it, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from crawlfleet.errors import CrawlfleetError, InvalidInput
from crawlfleet.execution.agent.sync.http_calls import StaleExecutionError, UnknownCrawlError
from crawlfleet.execution.agent.work.quota_slices import QuotaSlices
from crawlfleet.execution.budget import quota_meter
from crawlfleet.execution.executors.outside.chunk_uploader import Upload, Uploads
from crawlfleet.execution.executors.protocol import (
    Credit,
    Done,
    EarlierNotes,
    FetchEarlierNotes,
    Items,
    LogLines,
    MasterAnswer,
    MasterRequest,
    ProgressFigures,
    QuotaSlice,
    SliceRequest,
    StartExecution,
    WarcRecords,
)
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody, SliceBody, SliceWantBody, UsedBody

LAST_WORDS_S = 2.0
"""How long the log of an execution that failed may take to go up."""

MASTER_CALLS = ("products", "products:unseen", "products:report", "cookies")
"""What an execution may ask a master; each is the end of a path below its own."""
MANIFEST = ("items", "item_chunks", "item_bytes", "log_chunks", "warc_chunks", "warc_bytes")
"""Only ever said by the agent."""

T = TypeVar("T")
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Died:
    """Its process died under it."""

    end: End
    message: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A master does not take what it streams."""

    reason: CrawlfleetError


Ended = Done | Died | Refused
OnStart = Callable[[ExecutionId, float], None]
"""Called when a process has an execution, with the seconds since the agent handed it over."""


class Flight:
    def __init__(
        self,
        assignment: AssignmentBody,
        uploads: Uploads,
        on_figures: Callable[[int, bytes], None],
        slices: QuotaSlices | None = None,
    ) -> None:
        self.assignment = assignment
        self._slices = slices
        self.used: UsedBody | None = None
        """What it fetched, where it was metered and said so at its end."""
        self.execution = assignment.execution
        self._uploads = uploads
        self._on_figures = on_figures
        self._upload: Upload | None = None
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        """What the executor waits for. After `Refused` the process still has to be stopped."""
        self.gone = False
        """Nothing of it runs any more."""
        self.figures = b""
        """What it told last, also when nobody waits for its end any more."""
        self._on_gone: asyncio.Event | None = None
        self._recollecting: asyncio.Task[None] | None = None
        self.send: Callable[[Credit | QuotaSlice | MasterAnswer | EarlierNotes], None] = _unsent
        """To its process."""
        self._exchanging: asyncio.Task[None] | None = None

    @property
    def start(self) -> StartExecution:
        given = self.assignment
        return StartExecution(
            given.execution,
            given.task,
            given.task_type,
            bytes(given.parameters),
            given.timeout_s,
            given.retry,
            given.is_metered,
        )

    @property
    def upload(self) -> Upload:
        if self._upload is None:
            self._upload = Upload(self._uploads, self.assignment.task, self.execution, self._refuse)
        return self._upload

    @property
    def has_upload(self) -> bool:
        return self._upload is not None and self._upload.has_content

    def take(
        self,
        message: Items
        | LogLines
        | WarcRecords
        | ProgressFigures
        | SliceRequest
        | MasterRequest
        | FetchEarlierNotes
        | Done,
    ) -> None:
        match message:
            case Items():
                self.upload.add_items(message.count, message.lines, self._credit)
            case LogLines():
                self.upload.add_log(message.lines, self._credit)
            case WarcRecords():
                self.upload.add_records(message.lines, self._credit)
            case ProgressFigures():
                self._note_figures(message.figures)
            case SliceRequest():
                self._want(message)
            case MasterRequest():
                # One at a time: a process that asks again has given up on the answer.
                self._stop_exchanging()
                self._exchanging = asyncio.create_task(self._exchange(message))
            case FetchEarlierNotes():
                # One at a time: whoever asks waits for the answer.
                self._recollecting = self._recollecting or asyncio.create_task(self._recollect(message))
            case Done():
                self.end(message)

    def end(self, how: Done | Died) -> None:
        """Said once nothing of it runs any more."""
        if isinstance(how, Done):
            self.figures = how.metrics
            self.used = None if how.used is None else UsedBody(*how.used)
        if self._slices is not None:
            self._slices.forget_execution(self.execution)
        if not self.ended.done():
            self.ended.set_result(how)
        self._stop_exchanging()
        self.gone = True
        if self._recollecting is not None:
            self._recollecting.cancel()
        if self._on_gone is not None:
            self._on_gone.set()

    async def until_gone(self, within_s: float) -> bool:
        if not self.gone:
            self._on_gone = self._on_gone or asyncio.Event()
            try:
                async with asyncio.timeout(within_s):
                    await self._on_gone.wait()
            except TimeoutError:
                pass
        return self.gone

    async def outcome(self, ended: Ended) -> OutcomeBody:
        """What is reported. An outcome waits until everything that belongs to it is with a master."""
        body = await self._outcome(ended)
        return body if self.used is None else msgspec.structs.replace(body, used=self.used)

    async def _outcome(self, ended: Ended) -> OutcomeBody:
        match ended:
            case Refused():
                return await self._refused(ended.reason)
            case Died():
                metrics = await self.last_words(LAST_WORDS_S)
                return self._body(ended.end, ErrorClass.CRASH, ended.message, metrics)
        if not ended.is_completed:
            return self._of_failed(ended, await self.last_words(LAST_WORDS_S))
        try:
            manifest = b"" if self._upload is None else await self._upload.finish()
        except CrawlfleetError as exc:
            return await self._refused(exc)
        given, metrics = self.assignment, _joined(manifest, ended.metrics)
        try:
            products = _RAWS.decode(ended.products) if ended.products else []
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            return self._body(End.FAILED, ErrorClass.INTERNAL, f"its products are not JSON: {exc}", metrics)
        return OutcomeBody(
            given.task,
            given.execution,
            End.COMPLETED,
            result=msgspec.Raw(ended.result),
            metrics=metrics,
            products=products,
        )

    async def last_words(self, within_s: float) -> msgspec.Raw:
        """Of one that did not complete: its log goes up, its items do not count. Its metrics."""
        manifest = b"" if self._upload is None else await self._upload.abandon(log_within_s=within_s)
        return _joined(manifest, self.figures)

    def _of_failed(self, done: Done, metrics: msgspec.Raw) -> OutcomeBody:
        if done.is_cancelled:
            return self._body(End.FAILED, ErrorClass.INTERNAL, "the executor cancelled itself", metrics)
        given = self.assignment
        if done.again_ms > 0:
            body = self._body(End.RETURNED, ErrorClass.BLOCKED, done.message, metrics)
            again_ms = min(done.again_ms, limits.PARK_MS_MAX)
            return msgspec.structs.replace(body, again_ms=again_ms, cause=done.cause, subject=done.subject)
        return OutcomeBody(
            given.task, given.execution, End.FAILED, done.error, done.message, done.is_permanent, metrics=metrics
        )

    async def _refused(self, reason: CrawlfleetError) -> OutcomeBody:
        if isinstance(reason, StaleExecutionError):
            return self._body(End.STOPPED, None, "no longer the live execution of its task", NULL)
        if isinstance(reason, UnknownCrawlError):
            # Its parameters speak of a crawl that is not there: another try would find the same.
            return self._body(End.FAILED, ErrorClass.INPUT, str(reason), await self.last_words(0.0))
        message = f"a master refused what it streamed: {reason}"
        return self._body(End.FAILED, ErrorClass.INTERNAL, message, await self.last_words(0.0))

    def _body(self, end: End, error: ErrorClass | None, message: str, metrics: msgspec.Raw) -> OutcomeBody:
        return OutcomeBody(
            self.assignment.task, self.execution, end, int(error or 0), message[: limits.MESSAGE_CHARS], metrics=metrics
        )

    async def _exchange(self, asked: MasterRequest) -> None:
        try:
            if asked.endpoint == "crawl":
                answer = await self.upload.exchange(asked.body)
            elif asked.endpoint in MASTER_CALLS:
                answer = await self.upload.ask(asked.endpoint, asked.body)
            else:
                raise InvalidInput(f"nothing is asked at {asked.endpoint!r}")
        except CrawlfleetError as exc:
            self._refuse(exc)
        else:
            if not self.gone:
                self.send(MasterAnswer(self.execution, answer))

    def _stop_exchanging(self) -> None:
        if self._exchanging is not None:
            self._exchanging.cancel()

    def _note_figures(self, figures: bytes) -> None:
        if len(figures) <= limits.PROGRESS_BYTES and _object(figures) is not None:
            self.figures = figures
            self._on_figures(self.execution, figures)

    def _credit(self, size: int) -> None:
        if not self.gone:
            self.send(Credit(self.execution, size))

    def _want(self, want: SliceRequest) -> None:
        if self._slices is not None and self.assignment.is_metered and not self.gone:
            body = SliceWantBody(self.assignment.task, self.execution, want.number, want.pages, want.bytes)
            self._slices.request_slice(body, self._give)

    def _give(self, body: SliceBody) -> None:
        refused = [
            quota_meter.Refused(over.quota, over.project, over.message, over.again_ms, over.is_held)
            for over in body.overs
        ]
        self.send(QuotaSlice(self.execution, body.number, body.pages, body.bytes, refused))

    async def _recollect(self, asked: FetchEarlierNotes) -> None:
        try:
            parts, lines = await self._uploads.recollect(self.assignment.task, self.execution, asked.task, asked.number)
            answer = EarlierNotes(self.execution, asked.number, parts, lines)
        except CrawlfleetError as exc:
            answer = EarlierNotes(self.execution, asked.number, 0, problem=str(exc)[: limits.MESSAGE_CHARS])
        self._recollecting = None
        if not self.gone:
            self.send(answer)

    def _refuse(self, reason: CrawlfleetError) -> None:
        if not self.ended.done():
            self.ended.set_result(Refused(reason))


async def unhurried(work: Coroutine[Any, Any, T]) -> T:
    """Awaits something that must come to its end even when the caller is cancelled meanwhile, or again."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return task.result()


def _joined(manifest: bytes, metrics: bytes) -> msgspec.Raw:
    """The executor's figures and the manifest; where both have a name, the manifest's is the truth."""
    if not metrics:
        return msgspec.Raw(manifest) if manifest else NULL
    figures = _object(metrics) or {}
    for name in MANIFEST:
        figures.pop(name, None)
    return msgspec.Raw(msgspec.json.encode(figures | msgspec.json.decode(manifest or b"{}")))


def _object(said: bytes) -> dict[str, Any] | None:
    """None for what is none: it may come from a stranger's code."""
    try:
        return msgspec.json.decode(said, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _unsent(_message: Credit | QuotaSlice | MasterAnswer | EarlierNotes) -> None:
    pass
