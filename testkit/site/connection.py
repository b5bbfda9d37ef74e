"""A connection to the test site: a response may break any rule of HTTP, and may be held back."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from crawlfleet.demo_shop.connection import Connection
from crawlfleet.demo_shop.http_messages import Request
from testkit.site.page_gate import PREFIX, PageGate
from testkit.site.visitor_memory import Memory

Answer = bytes | Coroutine[Any, Any, None]
Answerer = Callable[["Exchange"], Answer]
"""Function that makes a whole response at once, or a coroutine that writes any bytes at any time."""


class Exchange:
    """One request, and the means to answer it badly."""

    __slots__ = ("_connection", "memory", "request")

    def __init__(self, connection: SiteConnection, request: Request, memory: Memory) -> None:
        self._connection = connection
        self.request = request
        self.memory = memory

    @property
    def requests_served(self) -> int:
        """The number of requests on this connection, this one included."""
        return self._connection.served

    async def send(self, data: bytes) -> None:
        """Send, and wait while the other side does not read: an endless response costs no memory here."""
        self._connection.transport.write(data)
        await self._connection.drain()

    async def hang(self) -> None:
        """Wait for as long as the other side stays."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Close the connection after everything written was sent."""
        self._connection.transport.close()

    def reset(self) -> None:
        """End the connection at once, and not in order: the other side sees a connection reset."""
        self._connection.reset()


class SiteConnection(Connection):
    """A connection whose responses may be coroutines, and pass the page gate."""

    def __init__(
        self, answerer: Answerer, memory: Memory, gate: PageGate, opened: set[Connection], delay_s: float
    ) -> None:
        super().__init__(opened, delay_s)
        self._answerer = answerer
        self._memory = memory
        self._gate = gate
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.served = 0

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    async def drain(self) -> None:
        # Yields to the loop even where nothing waits: an endless response must not stop all others.
        await asyncio.sleep(0)
        await self._may_write.wait()

    def reset(self) -> None:
        # A linger time of zero turns the close into a reset.
        number = self.transport.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def answer_request(self, request: Request) -> asyncio.Task[None] | None:
        self.served += 1
        answer = self._answerer(Exchange(self, request, self._memory))
        held = self._gate.admit(request.target)
        delay_s = 0.0 if request.path.startswith(PREFIX) else self._delay_s
        if isinstance(answer, bytes) and held is None and not delay_s:
            self.send_answer(request, answer)
            return None
        task = asyncio.create_task(self._respond_when_released(request, answer, held, delay_s))
        task.add_done_callback(partial(self._clean_up, answer, held))
        return task

    async def _respond_when_released(
        self, request: Request, answer: Answer, held: asyncio.Future[None] | None, delay_s: float
    ) -> None:
        if held is not None:
            await self._gate.wait(held)
        if delay_s:
            await asyncio.sleep(delay_s)
        if isinstance(answer, bytes):
            self.send_answer(request, answer)
        else:
            await answer
            if not request.is_kept_alive:
                self.transport.close()

    def _clean_up(self, answer: Answer, held: asyncio.Future[None] | None, _: asyncio.Task[None]) -> None:
        if held is not None:
            # Also where the other side left before the task began to wait.
            self._gate.forget(held)
        if not isinstance(answer, bytes):
            # Where the other side left before the response began.
            answer.close()
