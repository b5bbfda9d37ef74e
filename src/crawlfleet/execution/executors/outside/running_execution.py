"""A running execution as the agent sees it: messages from its process, its upload, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from crawlfleet.errors import CrawlfleetError, InvalidInput
from crawlfleet.execution.budget import quota_meter
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.execution.executors.outside.chunk_uploader import ChunkUploader, ExecutionUpload
from crawlfleet.execution.executors.protocol import (
    Credit,
    Done,
    EarlierNotes,
    ExecutionMessage,
    FetchEarlierNotes,
    FetchSpans,
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
from crawlfleet.execution.master_calls.http_calls import StaleExecutionError, UnknownCrawlError
from crawlfleet.execution.process_state.fetch_trace import MAX_FETCHES, FetchRecord
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.sync import NULL, AssignmentBody, OutcomeBody, SliceBody, SliceWantBody, UsedBody

LOG_FLUSH_S = 2.0
"""Timeout for uploading the log of a failed execution."""

MASTER_CALLS = ("products", "products:unseen", "products:report", "cookies")
"""Endpoints of a master that an execution may call; each is the end of a path below its own."""
MANIFEST_FIELDS = ("items", "item_chunks", "item_bytes", "log_chunks", "warc_chunks", "warc_bytes")
"""Metrics that only the agent may set."""

T = TypeVar("T")
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class ProcessDied:
    """The process of the execution died."""

    end: End
    message: str


@dataclass(frozen=True, slots=True)
class StreamRefused:
    """A master refused the stream of the execution."""

    reason: CrawlfleetError


ExecutionEnd = Done | ProcessDied | StreamRefused
OnStart = Callable[[ExecutionId, float], None]
"""Callback for when a process has an execution, with the seconds since the agent handed it over."""


class RunningExecution:
    """One execution in an executor process: it handles its messages and builds its outcome."""

    def __init__(
        self,
        assignment: AssignmentBody,
        uploader: ChunkUploader,
        on_progress: Callable[[int, bytes], None],
        slices: QuotaSlices | None = None,
        traceparent: str = "",
    ) -> None:
        self.assignment = assignment
        self._slices = slices
        self._traceparent = traceparent
        self.fetches: list[FetchRecord] = []
        """First requests of a traced execution, known at its end."""
        self.used: UsedBody | None = None
        """Quota usage of a metered execution, known at its end."""
        self.id = assignment.execution
        self._uploader = uploader
        self._on_figures = on_progress
        self._upload: ExecutionUpload | None = None
        self.ended: asyncio.Future[ExecutionEnd] = asyncio.get_running_loop().create_future()
        """How the execution ended. After `StreamRefused` the process still has to be stopped."""
        self.is_gone = False
        """Whether nothing of the execution runs any more."""
        self.figures = b""
        """Last figures of its progress, also after it was cancelled."""
        self._gone_event: asyncio.Event | None = None
        self._notes_task: asyncio.Task[None] | None = None
        self.send: Callable[[Credit | QuotaSlice | MasterAnswer | EarlierNotes], None] = _drop_message
        """Sends a message to its process."""
        self._master_request: asyncio.Task[None] | None = None

    @property
    def start_message(self) -> StartExecution:
        assignment = self.assignment
        return StartExecution(
            assignment.execution,
            assignment.task,
            assignment.task_type,
            bytes(assignment.parameters),
            assignment.timeout_s,
            assignment.retry,
            assignment.is_metered,
            self._traceparent,
        )

    @property
    def upload(self) -> ExecutionUpload:
        if self._upload is None:
            self._upload = ExecutionUpload(self._uploader, self.assignment.task, self.id, self._refuse_stream)
        return self._upload

    @property
    def has_upload(self) -> bool:
        return self._upload is not None and self._upload.has_content

    def handle_message(self, message: ExecutionMessage) -> None:
        match message:
            case Items():
                self.upload.add_items(message.count, message.lines, self._send_credit)
            case LogLines():
                self.upload.add_log(message.lines, self._send_credit)
            case WarcRecords():
                self.upload.add_records(message.lines, self._send_credit)
            case ProgressFigures():
                self._note_figures(message.figures)
            case SliceRequest():
                self._request_slice(message)
            case MasterRequest():
                # One at a time: a process that asks again has given up on the answer.
                self._cancel_master_request()
                self._master_request = asyncio.create_task(self._send_master_request(message))
            case FetchEarlierNotes():
                # One at a time: the caller waits for the answer.
                self._notes_task = self._notes_task or asyncio.create_task(self._send_earlier_notes(message))
            case FetchSpans():
                # Of a process that runs foreign code: it may send anything.
                self.fetches = [record for record in message.records[:MAX_FETCHES] if record.is_possible]
            case Done():
                self.set_end(message)

    def set_end(self, execution_end: Done | ProcessDied) -> None:
        """Set how the execution ended; called when nothing of it runs any more."""
        if isinstance(execution_end, Done):
            self.figures = execution_end.metrics
            self.used = None if execution_end.used is None else UsedBody(*execution_end.used)
        if self._slices is not None:
            self._slices.forget_execution(self.id)
        if not self.ended.done():
            self.ended.set_result(execution_end)
        self._cancel_master_request()
        self.is_gone = True
        if self._notes_task is not None:
            self._notes_task.cancel()
        if self._gone_event is not None:
            self._gone_event.set()

    async def wait_until_gone(self, within_s: float) -> bool:
        if not self.is_gone:
            self._gone_event = self._gone_event or asyncio.Event()
            try:
                async with asyncio.timeout(within_s):
                    await self._gone_event.wait()
            except TimeoutError:
                pass
        return self.is_gone

    async def build_outcome(self, execution_end: ExecutionEnd) -> OutcomeBody:
        """The outcome to report; waits until everything that belongs to it is with a master."""
        body = await self._outcome_without_usage(execution_end)
        return body if self.used is None else msgspec.structs.replace(body, used=self.used)

    async def _outcome_without_usage(self, execution_end: ExecutionEnd) -> OutcomeBody:
        match execution_end:
            case StreamRefused():
                return await self._refused_outcome(execution_end.reason)
            case ProcessDied():
                metrics = await self.flush_log(LOG_FLUSH_S)
                return self._outcome_body(execution_end.end, ErrorClass.CRASH, execution_end.message, metrics)
        if not execution_end.is_completed:
            return self._failed_outcome(execution_end, await self.flush_log(LOG_FLUSH_S))
        try:
            manifest = b"" if self._upload is None else await self._upload.finish()
        except CrawlfleetError as exc:
            return await self._refused_outcome(exc)
        assignment, metrics = self.assignment, _merge_metrics(manifest, execution_end.metrics)
        try:
            products = _RAW_LIST.decode(execution_end.products) if execution_end.products else []
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            return self._outcome_body(End.FAILED, ErrorClass.INTERNAL, f"its products are not JSON: {exc}", metrics)
        return OutcomeBody(
            assignment.task,
            assignment.execution,
            End.COMPLETED,
            result=msgspec.Raw(execution_end.result),
            metrics=metrics,
            products=products,
        )

    async def flush_log(self, within_s: float) -> msgspec.Raw:
        """Upload the log of an execution that did not complete, without its items; returns its metrics."""
        manifest = b"" if self._upload is None else await self._upload.abandon(log_within_s=within_s)
        return _merge_metrics(manifest, self.figures)

    def _failed_outcome(self, done: Done, metrics: msgspec.Raw) -> OutcomeBody:
        if done.is_cancelled:
            return self._outcome_body(End.FAILED, ErrorClass.INTERNAL, "the executor cancelled itself", metrics)
        assignment = self.assignment
        if done.again_ms > 0:
            body = self._outcome_body(End.RETURNED, ErrorClass.BLOCKED, done.message, metrics)
            again_ms = min(done.again_ms, limits.PARK_MS_MAX)
            return msgspec.structs.replace(body, again_ms=again_ms, cause=done.cause, subject=done.subject)
        return OutcomeBody(
            assignment.task,
            assignment.execution,
            End.FAILED,
            done.error,
            done.message,
            done.is_permanent,
            metrics=metrics,
        )

    async def _refused_outcome(self, reason: CrawlfleetError) -> OutcomeBody:
        if isinstance(reason, StaleExecutionError):
            return self._outcome_body(End.STOPPED, None, "no longer the live execution of its task", NULL)
        if isinstance(reason, UnknownCrawlError):
            # Its parameters name a crawl that does not exist: a retry cannot help.
            return self._outcome_body(End.FAILED, ErrorClass.INPUT, str(reason), await self.flush_log(0.0))
        message = f"a master refused what it streamed: {reason}"
        return self._outcome_body(End.FAILED, ErrorClass.INTERNAL, message, await self.flush_log(0.0))

    def _outcome_body(self, end: End, error: ErrorClass | None, message: str, metrics: msgspec.Raw) -> OutcomeBody:
        return OutcomeBody(
            self.assignment.task, self.id, end, int(error or 0), message[: limits.MESSAGE_CHARS], metrics=metrics
        )

    async def _send_master_request(self, request: MasterRequest) -> None:
        try:
            if request.endpoint == "crawl":
                answer = await self.upload.report_crawl(request.body)
            elif request.endpoint in MASTER_CALLS:
                answer = await self.upload.send_request(request.endpoint, request.body)
            else:
                raise InvalidInput(f"nothing is asked at {request.endpoint!r}")
        except CrawlfleetError as exc:
            self._refuse_stream(exc)
        else:
            if not self.is_gone:
                self.send(MasterAnswer(self.id, answer))

    def _cancel_master_request(self) -> None:
        if self._master_request is not None:
            self._master_request.cancel()

    def _note_figures(self, figures: bytes) -> None:
        if len(figures) <= limits.PROGRESS_BYTES and _decode_object(figures) is not None:
            self.figures = figures
            self._on_figures(self.id, figures)

    def _send_credit(self, size: int) -> None:
        if not self.is_gone:
            self.send(Credit(self.id, size))

    def _request_slice(self, request: SliceRequest) -> None:
        if self._slices is not None and self.assignment.is_metered and not self.is_gone:
            body = SliceWantBody(self.assignment.task, self.id, request.number, request.pages, request.bytes)
            self._slices.request_slice(body, self._send_slice)

    def _send_slice(self, body: SliceBody) -> None:
        refused = [
            quota_meter.QuotaRefusal(over.quota, over.project, over.message, over.again_ms, over.is_held)
            for over in body.overs
        ]
        self.send(QuotaSlice(self.id, body.number, body.pages, body.bytes, refused))

    async def _send_earlier_notes(self, request: FetchEarlierNotes) -> None:
        try:
            parts, lines = await self._uploader.fetch_earlier_notes(
                self.assignment.task, self.id, request.task, request.number
            )
            answer = EarlierNotes(self.id, request.number, parts, lines)
        except CrawlfleetError as exc:
            answer = EarlierNotes(self.id, request.number, 0, problem=str(exc)[: limits.MESSAGE_CHARS])
        self._notes_task = None
        if not self.is_gone:
            self.send(answer)

    def _refuse_stream(self, reason: CrawlfleetError) -> None:
        if not self.ended.done():
            self.ended.set_result(StreamRefused(reason))


async def run_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine to its end even when the caller is cancelled meanwhile, or cancelled again."""
    task = asyncio.create_task(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    return task.result()


def _merge_metrics(manifest: bytes, metrics: bytes) -> msgspec.Raw:
    """The executor's figures and the manifest of the upload, whose fields replace the executor's."""
    if not metrics:
        return msgspec.Raw(manifest) if manifest else NULL
    figures = _decode_object(metrics) or {}
    for name in MANIFEST_FIELDS:
        figures.pop(name, None)
    return msgspec.Raw(msgspec.json.encode(figures | msgspec.json.decode(manifest or b"{}")))


def _decode_object(text: bytes) -> dict[str, Any] | None:
    """Decode a JSON object; None for anything else, as user code may have written it."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _drop_message(_message: Credit | QuotaSlice | MasterAnswer | EarlierNotes) -> None:
    pass
