"""How an agent and an executor process talk: frames over a socket pair.

    agent -> process   Serve (first), Start, Cancel, Credit, Ping, Grants, Extend, Slice, Exchanged, Recalled
    process -> agent   Ready, Items, Lines, Records, Figures, Done, Pong, Uses, Taken, News, Want, Exchange, Recollect,
                       ProxyStates

A frame is four bytes of length and one MessagePack array of messages. What is sent within one turn of the event loop
goes out as one frame, so that a thousand small executions cost few system calls. The volume in each direction is
bounded: by slots for starts and outcomes, by credits for items, and log lines over the bound are dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec

from crawlfleet.execution.budget.host_gate import HostUse, ProcessShare
from crawlfleet.execution.budget.quota_meter import Refused
from crawlfleet.model.proxy_health import ProxyHealth

FRAME_BYTES = 64 << 20
"""Nothing larger is ever sent: parameters, results and items are bounded."""
BATCH_BYTES = 8 << 20
ITEM_BYTES = 1 << 20


class Serve(msgspec.Struct, array_like=True, tag=0, frozen=True):
    """What the process may run: task types and the paths of their code."""

    paths: dict[str, str]
    search_path: list[str] = []
    allow_hosts: list[str] = []
    window_bytes: int = 256 << 10
    """Of items and log lines of one execution that are not credited yet."""
    is_granted: bool = False
    """Target hosts are asked with grants only."""
    proxy_pools: dict[str, list[str]] = {}


class Start(msgspec.Struct, array_like=True, tag=1, frozen=True):
    execution: int
    task: int
    task_type: str
    parameters: bytes
    timeout_s: int
    attempt: int
    is_metered: bool = False
    """It fetches nothing without a slice of its project's day."""


class Cancel(msgspec.Struct, array_like=True, tag=2, frozen=True):
    execution: int


class Credit(msgspec.Struct, array_like=True, tag=3, frozen=True):
    """So many bytes of an execution's stream were taken away."""

    execution: int
    size: int


class Ping(msgspec.Struct, array_like=True, tag=4, frozen=True):
    number: int


class Grants(msgspec.Struct, array_like=True, tag=5, frozen=True):
    """The process's parts of hosts' budgets, all of them: they replace what was said before."""

    version: int
    until: float
    """By the boot clock, which the processes of a machine share."""
    shares: list[ProcessShare] = []


class Extend(msgspec.Struct, array_like=True, tag=6, frozen=True):
    """The same grants are good for longer."""

    until: float


class Slice(msgspec.Struct, array_like=True, tag=7, frozen=True):
    """All that an execution was granted of its project's day so far."""

    execution: int
    number: int
    pages: int
    bytes: int
    refused: list[Refused] = []


class Exchanged(msgspec.Struct, array_like=True, tag=8, frozen=True):
    """What a master answered to an Exchange."""

    execution: int
    body: bytes


class Recalled(msgspec.Struct, array_like=True, tag=9, frozen=True):
    """A part of what an earlier task noted of its pages, as JSON lines."""

    execution: int
    number: int
    parts: int
    lines: bytes = b""
    problem: str = ""
    """Why it cannot be had."""


class Ready(msgspec.Struct, array_like=True, tag=10, frozen=True):
    pass


class Items(msgspec.Struct, array_like=True, tag=11, frozen=True):
    execution: int
    count: int
    lines: bytes


class Lines(msgspec.Struct, array_like=True, tag=12, frozen=True):
    """Lines of an execution's log, as JSON lines."""

    execution: int
    lines: bytes


class Records(msgspec.Struct, array_like=True, tag=20, frozen=True):
    """Answers of sites for the archive: records of WARC, each compressed by itself."""

    execution: int
    lines: bytes


class Done(msgspec.Struct, array_like=True, tag=13, frozen=True):
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
    """It could not be done now, through no fault of its own, and may be tried again then."""
    cause: int = 0
    """model.parking.ParkCause"""
    subject: str = ""
    used: tuple[int, int] | None = None
    """Pages and bytes, of one that was metered."""
    products: bytes = b""
    """A JSON list of those that were not sent before."""


class Pong(msgspec.Struct, array_like=True, tag=14, frozen=True):
    number: int


class Figures(msgspec.Struct, array_like=True, tag=15, frozen=True):
    """How far an execution is, as a JSON object."""

    execution: int
    figures: bytes


class Uses(msgspec.Struct, array_like=True, tag=16, frozen=True):
    """All hosts that are wanted now, and what was asked since the last time."""

    hosts: list[HostUse]


class Taken(msgspec.Struct, array_like=True, tag=17, frozen=True):
    """A version of the grants is in effect, but for the hosts named."""

    version: int
    pending: list[str] = []
    used: dict[str, int] = {}
    """By host: how many requests have left lately."""


class News(msgspec.Struct, array_like=True, tag=18, frozen=True):
    host: str
    kind: int
    """model.hosts.HostNews"""
    span_ms: int


class Want(msgspec.Struct, array_like=True, tag=19, frozen=True):
    """A metered execution asks for more of its project's day."""

    execution: int
    number: int
    pages: int
    bytes: int


class Exchange(msgspec.Struct, array_like=True, tag=21, frozen=True):
    """An execution has a word with a master: a member of a crawl over many nodes, to which the items it sent before
    belong, or one that sees products."""

    execution: int
    body: bytes
    about: str = "crawl"
    """What stands behind the execution in the path of the call."""


class Recollect(msgspec.Struct, array_like=True, tag=22, frozen=True):
    """An execution asks what an earlier task noted of its pages, part by part."""

    execution: int
    number: int
    task: str


class ProxyStates(msgspec.Struct, array_like=True, tag=23, frozen=True):
    """How the proxies of the node's pools do, as far as this process has used them. Replaces the last message."""

    proxies: list[ProxyHealth]


ToProcess = Serve | Start | Cancel | Credit | Ping | Grants | Extend | Slice | Exchanged | Recalled
ToAgent = (
    Ready
    | Items
    | Lines
    | Records
    | Figures
    | Done
    | Pong
    | Uses
    | Taken
    | News
    | Want
    | Exchange
    | Recollect
    | ProxyStates
)
_encode = msgspec.msgpack.Encoder().encode
TO_PROCESS = msgspec.msgpack.Decoder(list[ToProcess])
TO_AGENT = msgspec.msgpack.Decoder(list[ToAgent])


class Frames(asyncio.Protocol):
    """One end of the socket pair. `take` is called with the messages of each frame, `lost` once, when it is over."""

    def __init__(
        self,
        decoder: msgspec.msgpack.Decoder[list[ToAgent]] | msgspec.msgpack.Decoder[list[ToProcess]],
        take: Callable[[list[ToAgent] | list[ToProcess]], None],
        lost: Callable[[], None],
    ) -> None:
        self._decode = decoder.decode
        self._take = take
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._read = bytearray()
        self._unsent: list[ToAgent | ToProcess] = []
        self._unsent_bytes = 0
        self._is_flushing = False
        self._is_ended = False
        self._closed = asyncio.Event()

    def send(self, message: ToAgent | ToProcess, size: int = 0) -> None:
        """`size` is a hint for large messages: what is gathered goes out before it outgrows a frame."""
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

    def end(self) -> None:
        """Nothing more is said. The other end closes when it has read all of it.

        Closing from here would be too early: whoever writes to a socket that is closed reads nothing more from it.
        """
        self.flush()
        if self._transport is not None and not (self._is_ended or self._transport.is_closing()):
            self._is_ended = True
            self._transport.write_eof()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def read_to_end(self, within_s: float) -> None:
        """The other end is gone: what it said last may still be on its way here."""
        try:
            async with asyncio.timeout(within_s):
                await self._closed.wait()
        except TimeoutError:
            self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.flush()

    def data_received(self, data: bytes) -> None:
        read = self._read
        read += data
        at = 0
        while len(read) - at >= 4:
            size = int.from_bytes(read[at : at + 4], "big")
            if size > FRAME_BYTES:
                self.abort()
                return
            if len(read) - at - 4 < size:
                break
            with memoryview(read) as view, view[at + 4 : at + 4 + size] as frame:
                messages = self._decoded(frame)
            if messages is None:
                return
            at += 4 + size
            self._take(messages)
        del read[:at]

    def _decoded(self, frame: memoryview) -> list[ToAgent] | list[ToProcess] | None:
        """None, and the end of the connection, for what makes no sense: the other end may be a stranger's code."""
        try:
            return self._decode(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.abort()
            return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set()
        self._lost()
