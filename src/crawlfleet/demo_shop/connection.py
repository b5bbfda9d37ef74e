"""A connection to the demo shop: HTTP/1 written by hand, so that a page costs microseconds."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

from crawlfleet.demo_shop.http_messages import HEAD_BYTES, Malformed, Request, is_number, parse_request, write_response

BODY_BYTES = 1_000_000
"""Largest body of a request; a larger one is refused."""


class Connection(asyncio.Protocol, ABC):
    """One connection: reads its requests, and has them answered one after the other."""

    transport: asyncio.Transport

    def __init__(self, opened: set[Connection], delay_s: float) -> None:
        self._opened = opened
        self._delay_s = delay_s
        self._buffer = b""
        self._answering: asyncio.Task[None] | None = None
        self._client = ("", 0)
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transport of uvloop has the same methods but not the same type.
        self.transport = cast("asyncio.Transport", transport)
        self._client = tuple(transport.get_extra_info("peername")[:2])
        self._opened.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)
        self.ended.set()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve_requests()

    @abstractmethod
    def answer_request(self, request: Request) -> asyncio.Task[None] | None:
        """Answer the request; returns a task where the answer takes time, during which no other request is read."""

    def send_answer(self, request: Request, answer: bytes) -> None:
        if request.method == "HEAD":
            answer = answer[: answer.find(b"\r\n\r\n") + 4]
        self.transport.write(answer)
        if not request.is_kept_alive:
            self.transport.close()

    def _serve_requests(self) -> None:
        while self._answering is None and not self.transport.is_closing():
            try:
                request = self._next_request()
            except Malformed:
                self.transport.write(write_response(400, b"not HTTP/1"))
                self.transport.close()
                return
            if request is None:
                return
            self._answering = self.answer_request(request)
            if self._answering is not None:
                self._answering.add_done_callback(self._end_answer)

    def _next_request(self) -> Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_BYTES:
                raise Malformed("the head is too long")
            return None
        request = parse_request(self._buffer[:end], self._client)
        length = request.headers.get("content-length", "0")
        if not is_number(length) or int(length) > BODY_BYTES:
            raise Malformed("no such length")
        after = end + 4 + int(length)
        if len(self._buffer) < after:
            return None
        request.body = self._buffer[end + 4 : after]
        self._buffer = self._buffer[after:]
        return request

    def _end_answer(self, task: asyncio.Task[None]) -> None:
        self._answering = None
        if task.cancelled():
            return
        if (failure := task.exception()) is not None:
            context = {"message": "the site failed to answer", "exception": failure, "protocol": self}
            asyncio.get_running_loop().call_exception_handler(context)
            self.transport.abort()
            return
        self._serve_requests()


class ShopConnection(Connection):
    """A connection on which each request gets a whole response, after the delay."""

    def __init__(self, answer: Callable[[Request], bytes], opened: set[Connection], delay_s: float) -> None:
        super().__init__(opened, delay_s)
        self._answer = answer

    def answer_request(self, request: Request) -> asyncio.Task[None] | None:
        answer = self._answer(request)
        if self._delay_s:
            return asyncio.create_task(self._respond_later(request, answer))
        self.send_answer(request, answer)
        return None

    async def _respond_later(self, request: Request, answer: bytes) -> None:
        await asyncio.sleep(self._delay_s)
        self.send_answer(request, answer)
