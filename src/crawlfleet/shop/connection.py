"""A connection to the site: HTTP/1 by hand, so that an answer may break any rule, and a page costs microseconds."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from crawlfleet.shop.http import HEAD_BYTES, Malformed, Request, is_number, parse, reply
from crawlfleet.shop.memory import Memory
from crawlfleet.shop.page_gate import PREFIX, PageGate

Answer = bytes | Coroutine[Any, Any, None]
Answerer = Callable[["Talk"], Answer]
"""A whole answer at once, or a coroutine that writes what it likes, when it likes."""
BODY_BYTES = 1_000_000


class Talk:
    """One request, and the means to answer it badly."""

    __slots__ = ("_connection", "memory", "request")

    def __init__(self, connection: Connection, request: Request, memory: Memory) -> None:
        self._connection = connection
        self.request = request
        self.memory = memory

    @property
    def requests_served(self) -> int:
        """On this connection, with this one."""
        return self._connection.served

    async def send(self, data: bytes) -> None:
        """Waits while the other side does not read: an endless answer costs no memory here."""
        self._connection.transport.write(data)
        await self._connection.drain()

    async def hang(self) -> None:
        """For as long as the other side stays."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """After what was written has left."""
        self._connection.transport.close()

    def reset(self) -> None:
        """At once, and not in order: the other side sees a connection reset."""
        self._connection.reset()


class Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(
        self, answerer: Answerer, memory: Memory, gate: PageGate, opened: set[Connection], delay_s: float
    ) -> None:
        self._answerer = answerer
        self._memory = memory
        self._gate = gate
        self._opened = opened
        self._delay_s = delay_s
        self._buffer = b""
        self._speaking: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._client = ("", 0)
        self.served = 0
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is one in all but name.
        self.transport = cast("asyncio.Transport", transport)
        self._client = tuple(transport.get_extra_info("peername")[:2])
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)
        self.ended.set()
        if self._speaking is not None:
            self._speaking.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def drain(self) -> None:
        # A turn of the loop even where nothing waits: an endless answer must not stop all others.
        await asyncio.sleep(0)
        await self._may_write.wait()

    def reset(self) -> None:
        # Lingering for no time is what turns the end into a reset.
        number = self.transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve()

    def _serve(self) -> None:
        while self._speaking is None and not self.transport.is_closing():
            try:
                request = self._next_request()
            except Malformed:
                self.transport.write(reply(400, b"not HTTP/1"))
                self.transport.close()
                return
            if request is None:
                return
            self.served += 1
            answer = self._answerer(Talk(self, request, self._memory))
            held = self._gate.admit(request.target)
            delay_s = 0.0 if request.path.startswith(PREFIX) else self._delay_s
            if isinstance(answer, bytes) and held is None and not delay_s:
                self._finish(request, answer)
            else:
                self._speaking = asyncio.create_task(self._speak(request, answer, held, delay_s))
                self._speaking.add_done_callback(partial(self._spoken, answer, held))

    def _next_request(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES:
                raise Malformed("the head is too long")
            return None
        request = parse(self._buffer[:end], self._client)
        length = request.headers.get("content-length", "0")
        if not is_number(length) or int(length) > BODY_BYTES:
            raise Malformed("no such length")
        after = end + 4 + int(length)
        if len(self._buffer) < after:
            return None
        request.body = self._buffer[end + 4 : after]
        self._buffer = self._buffer[after:]
        return request

    def _finish(self, request: Request, answer: bytes) -> None:
        if request.method == "HEAD":
            answer = answer[: answer.find(b"\r\n\r\n") + 4]
        self.transport.write(answer)
        if not request.is_kept_alive:
            self.transport.close()

    async def _speak(self, request: Request, answer: Answer, held: asyncio.Future[None] | None, delay_s: float) -> None:
        if held is not None:
            await self._gate.wait(held)
        if delay_s:
            await asyncio.sleep(delay_s)
        if isinstance(answer, bytes):
            self._finish(request, answer)
        else:
            await answer
            if not request.is_kept_alive:
                self.transport.close()

    def _spoken(self, answer: Answer, held: asyncio.Future[None] | None, task: asyncio.Task[None]) -> None:
        self._speaking = None
        if held is not None:
            # Also where the other side left before the task began to wait.
            self._gate.forget(held)
        if not isinstance(answer, bytes):
            # Where the other side left before the answer began.
            answer.close()
        if task.cancelled():
            return
        if (failure := task.exception()) is not None:
            told = {"message": "the site failed to answer", "exception": failure, "protocol": self}
            asyncio.get_running_loop().call_exception_handler(told)
            self.transport.abort()
            return
        self._serve()
