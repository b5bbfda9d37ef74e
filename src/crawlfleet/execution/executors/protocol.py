"""The protocol between an agent and its executor processes: frames of messages over a socket pair.

    agent -> process   ProcessConfig (first), StartExecution, CancelExecution, Credit, Ping, ProcessGrants,
                       ExtendGrants, QuotaSlice, MasterAnswer, EarlierNotes
    process -> agent   Ready, Items, LogLines, WarcRecords, ProgressFigures, Done, Pong, HostUsageReport,
                       GrantsInEffect, HostNoteReport, SliceRequest, MasterRequest, FetchEarlierNotes, ProxyStates,
                       FetchSpans

A frame is four bytes of length and one MessagePack array of messages. What is sent within one turn of the event loop
goes out as one frame, so that a thousand small executions cost few system calls. The volume in each direction is
bounded: by slots for starts and outcomes, by credits for items, and log lines over the bound are dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from crawlfleet.execution.budget.host_gate import HostUsage, ProcessShare
from crawlfleet.execution.budget.quota_meter import QuotaRefusal
from crawlfleet.execution.process_state.fetch_trace import FetchRecord
from crawlfleet.model.proxy_health import ProxyHealth

FRAME_BYTES = 64 << 20
"""Maximum size of a frame; never reached, as parameters, results and items are bounded."""
BATCH_BYTES = 8 << 20
ITEM_BYTES = 1 << 20


class ProcessConfig(msgspec.Struct, array_like=True, tag=0, frozen=True):
    """Configuration of a process: the task types it may run with the paths of their code, and its limits."""

    paths: dict[str, str]
    search_path: list[str] = []
    allow_hosts: list[str] = []
    window_bytes: int = 256 << 10
    """Maximum size of one execution's items and log lines that are not credited yet."""
    is_granted: bool = False
    """Whether requests to target hosts need a grant."""
    proxy_pools: dict[str, list[str]] = {}


class StartExecution(msgspec.Struct, array_like=True, tag=1, frozen=True):
    """Order to start an execution."""

    execution: int
    task: int
    task_type: str
    parameters: bytes
    timeout_s: int
    attempt: int
    is_metered: bool = False
    """Whether it needs slices of its project's daily quota to fetch anything."""
    traceparent: str = ""
    """Context of its span; empty if it is not traced."""


class CancelExecution(msgspec.Struct, array_like=True, tag=2, frozen=True):
    """Order to cancel an execution."""

    execution: int


class Credit(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """Credit for the bytes of an execution's stream that the agent has passed on."""

    execution: int
    size: int


class Ping(msgspec.Struct, array_like=True, tag=4, frozen=True):
    """Ping with a number, answered by a Pong."""

    number: int


class ProcessGrants(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """All shares of hosts' budgets that the process has; they replace those of the version before."""

    version: int
    until: float
    """End of validity by the boot clock, which the processes of a machine share."""
    shares: list[ProcessShare] = []


class ExtendGrants(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """A later end of validity for the same grants."""

    until: float


class QuotaSlice(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """The total that an execution was granted of its project's daily quota so far."""

    execution: int
    number: int
    pages: int
    bytes: int
    refusals: list[QuotaRefusal] = []


class MasterAnswer(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """A master's answer to a MasterRequest."""

    execution: int
    body: bytes


class EarlierNotes(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """One part of the page notes of an earlier task, as JSON lines."""

    execution: int
    number: int
    parts: int
    lines: bytes = b""
    problem: str = ""
    """Reason why the notes are not available; empty when they are."""


class Ready(msgspec.Struct, array_like=True, tag=10, frozen=True):
    """The process is ready for executions."""


class Items(msgspec.Struct, array_like=True, tag=11, frozen=True):
    """Items of an execution, as JSON lines."""

    execution: int
    count: int
    lines: bytes


class LogLines(msgspec.Struct, array_like=True, tag=12, frozen=True):
    """Log lines of an execution, as JSON lines."""

    execution: int
    lines: bytes


class WarcRecords(msgspec.Struct, array_like=True, tag=20, frozen=True):
    """WARC records of responses for the archive, each compressed by itself."""

    execution: int
    lines: bytes


class Done(msgspec.Struct, array_like=True, tag=13, frozen=True):
    """How an execution ended."""

    execution: int
    is_completed: bool
    error: int = 0
    """model.status.ErrorClass"""
    message: str = ""
    is_permanent: bool = False
    result: bytes = b""
    metrics: bytes = b""
    is_cancelled: bool = False
    again_ms: int = 0
    """Time after which the task may be tried again, when it could not be done now through no fault of its own."""
    cause: int = 0
    """model.execution.ParkCause"""
    subject: str = ""
    used: tuple[int, int] | None = None
    """Pages and bytes that a metered execution used."""
    products: bytes = b""
    """JSON list of the products that were not sent before."""


class Pong(msgspec.Struct, array_like=True, tag=14, frozen=True):
    """Answer to the Ping of the same number."""

    number: int


class ProgressFigures(msgspec.Struct, array_like=True, tag=15, frozen=True):
    """Progress of an execution, as a JSON object."""

    execution: int
    figures: bytes


class HostUsageReport(msgspec.Struct, array_like=True, tag=16, frozen=True):
    """Demand of the process for hosts now, and its requests since the last report."""

    hosts: list[HostUsage]


class GrantsInEffect(msgspec.Struct, array_like=True, tag=17, frozen=True):
    """Acknowledgement that a version of the grants is in effect, except for the pending hosts."""

    version: int
    pending: list[str] = []
    used: dict[str, int] = {}
    """Number of requests sent within the rate window, by host."""


class HostNoteReport(msgspec.Struct, array_like=True, tag=18, frozen=True):
    """A note on a target host: a refusal, a block or a crawl delay."""

    host: str
    kind: int
    """model.host.HostNoteKind"""
    span_ms: int


class SliceRequest(msgspec.Struct, array_like=True, tag=19, frozen=True):
    """Request of a metered execution for a slice of its project's daily quota."""

    execution: int
    number: int
    pages: int
    bytes: int


class MasterRequest(msgspec.Struct, array_like=True, tag=21, frozen=True):
    """Request of an execution to a master: the report of a member of a crawl over many nodes, to which the items it
    sent before belong, or a call about products or cookies."""

    execution: int
    body: bytes
    endpoint: str = "crawl"
    """Last part of the URL path, after the execution."""


class FetchEarlierNotes(msgspec.Struct, array_like=True, tag=22, frozen=True):
    """Request of an execution for the page notes of an earlier task, part by part."""

    execution: int
    number: int
    task: str


class ProxyStates(msgspec.Struct, array_like=True, tag=23, frozen=True):
    """Health of those proxies of the node's pools that this process has used. Replaces the last message."""

    proxies: list[ProxyHealth]


class FetchSpans(msgspec.Struct, array_like=True, tag=24, frozen=True):
    """The first requests of a traced execution, sent before its Done."""

    execution: int
    records: list[FetchRecord]


ExecutionMessage = (
    FetchSpans
    | Items
    | LogLines
    | WarcRecords
    | ProgressFigures
    | SliceRequest
    | MasterRequest
    | FetchEarlierNotes
    | Done
)
"""A message of one execution."""
HostMessage = HostUsageReport | GrantsInEffect | HostNoteReport
"""A message of the process about target hosts."""
ToProcess = (
    ProcessConfig
    | StartExecution
    | CancelExecution
    | Credit
    | Ping
    | ProcessGrants
    | ExtendGrants
    | QuotaSlice
    | MasterAnswer
    | EarlierNotes
)
ToAgent = Ready | Pong | ProxyStates | ExecutionMessage | HostMessage
_encode = msgspec.msgpack.Encoder().encode
TO_PROCESS = msgspec.msgpack.Decoder(list[ToProcess])
TO_AGENT = msgspec.msgpack.Decoder(list[ToAgent])


class FrameConnection(asyncio.Protocol):
    """One end of the socket pair. `on_messages` is called with the messages of each frame, `on_lost` at the end."""

    def __init__(
        self,
        decoder: msgspec.msgpack.Decoder[list[ToAgent]] | msgspec.msgpack.Decoder[list[ToProcess]],
        on_messages: Callable[[list[ToAgent] | list[ToProcess]], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._decode = decoder.decode
        self._on_messages = on_messages
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._unsent: list[ToAgent | ToProcess] = []
        self._unsent_bytes = 0
        self._is_flushing = False
        self._is_ended = False
        self._closed = asyncio.Event()

    def send(self, message: ToAgent | ToProcess, size: int = 0) -> None:
        """Send a message with the next frame. `size` is a hint: a frame goes out before it grows too large."""
        self._unsent.append(message)
        self._unsent_bytes += size
        if self._unsent_bytes > BATCH_BYTES:
            self.flush()
        elif not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._is_flushing = False
        if self._unsent and self._transport is not None and not (self._is_ended or self._transport.is_closing()):
            body = _encode(self._unsent)
            self._transport.write(len(body).to_bytes(4, "big") + body)
        self._unsent.clear()
        self._unsent_bytes = 0

    def close_writing(self) -> None:
        """Close this end for writing. The other end closes the connection when it has read everything.

        Closing it from here would be too early: a writer to a closed socket reads nothing more from it.
        """
        self.flush()
        if self._transport is not None and not (self._is_ended or self._transport.is_closing()):
            self._is_ended = True
            self._transport.write_eof()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def read_to_end(self, within_s: float) -> None:
        """Read what the other end sent before it ended; at most for `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._closed.wait()
        except TimeoutError:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.flush()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        offset = 0
        while len(buffer) - offset >= 4:
            size = int.from_bytes(buffer[offset : offset + 4], "big")
            if size > FRAME_BYTES:
                self.abort()
                return
            if len(buffer) - offset - 4 < size:
                break
            with memoryview(buffer) as view, view[offset + 4 : offset + 4 + size] as frame:
                messages = self._decode_frame(frame)
            if messages is None:
                return
            offset += 4 + size
            self._on_messages(messages)
        del buffer[:offset]

    def _decode_frame(self, frame: memoryview) -> list[ToAgent] | list[ToProcess] | None:
        """Decode a frame; an invalid one ends the connection (None), as user code may run at the other end."""
        try:
            return self._decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.abort()
            return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self._on_lost()
