"""Reader threads for people, each with a connection of its own and a deadline for each read.

The database calls back every few thousand steps whether to go on: a read whose deadline has passed, or whose caller
has gone, is interrupted there. A read that waited too long for a thread is not begun.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from crawlfleet.errors import ReadTooLong
from crawlfleet.store.engine.sqlalchemy_query import BROWSE_S, BROWSERS
from crawlfleet.store.engine.transaction import Tx

T = TypeVar("T")
Work = Callable[[Tx], Awaitable[Any]]
ReadOnce = Callable[[sqlite3.Connection, Work], Any]

_STEPS = 5_000
"""Number of steps of SQLite's virtual machine between two looks at the clock: far less than a millisecond."""


class _Request(NamedTuple):
    work: Work
    deadline: float
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    def is_over(self) -> bool:
        return time.monotonic() > self.deadline or self.future.cancelled()


class Browser:
    def __init__(
        self, connect: Callable[[], sqlite3.Connection], read_once: ReadOnce, *, deadline_s: float = BROWSE_S
    ) -> None:
        self._connect = connect
        self._read_once = read_once
        self._deadline_s = deadline_s
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve_reads, name=f"sqlite-browser-{number}", daemon=True)
            for number in range(BROWSERS)
        ]
        for thread in self._threads:
            thread.start()

    async def read_rows(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._requests.put(_Request(work, time.monotonic() + self._deadline_s, loop, future))
        return await future

    async def close(self) -> None:
        for _ in self._threads:
            self._requests.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _serve_reads(self) -> None:
        connection = self._connect()
        try:
            while (request := self._requests.get()) is not None:
                self._send_outcome(request, self._read_outcome(connection, request))
        finally:
            connection.close()

    def _read_outcome(self, connection: sqlite3.Connection, request: _Request) -> Any:
        if request.is_over():
            return ReadTooLong()
        connection.set_progress_handler(lambda: int(request.is_over()), _STEPS)
        try:
            return self._read_once(connection, request.work)
        except Exception as exc:
            return ReadTooLong() if _is_interrupted(exc) else exc
        finally:
            connection.set_progress_handler(None, 0)

    def _send_outcome(self, request: _Request, outcome: Any) -> None:
        try:
            request.loop.call_soon_threadsafe(_settle_future, request.future, outcome)
        except RuntimeError:
            pass  # the event loop of the caller closed meanwhile


def _is_interrupted(exc: BaseException) -> bool:
    cause = exc if isinstance(exc, sqlite3.Error) else exc.__cause__
    return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT


def _settle_future(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.cancelled():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
