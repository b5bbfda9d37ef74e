"""Waits for tasks to end: one watcher for all waiters, however many there are and whichever tasks they wait for.

After a signal that tasks may have ended, or at the latest after a second, one read of the store finds which of the
tasks waited for are not live any more. The watcher rests while there are no waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from crawlfleet.errors import Unavailable
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import ENDS, Signals
from crawlfleet.ports.task_store import TaskStore

POLL_S = 1.0
PAUSE_S = 0.005
"""Minimum pause in seconds between two reads of the store, however many signals come."""

log = structlog.get_logger()


class Ends:
    def __init__(self, *, store: TaskStore, signals: Signals) -> None:
        self._store = store
        self._signals = signals
        self._waiters: dict[asyncio.Future[None], TaskId] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._is_closed = False

    @contextmanager
    def watching(self, task: TaskId) -> Iterator[asyncio.Future[None]]:
        """Yield a future that is done when the task is not live, or when waiting has been closed. Enter it before the
        task is read: a task that ends between the read and the wait for it must not be missed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            waiter.set_result(None)
        self._waiters[waiter] = task
        try:
            yield waiter
        finally:
            del self._waiters[waiter]

    async def wait(self, waiter: asyncio.Future[None], timeout_s: float) -> None:
        """Wait until the future is done, or the timeout is over."""
        if self._watcher is None and not waiter.done():
            self._watcher = asyncio.create_task(self._watch(), name="ends of tasks")
        await asyncio.wait([waiter], timeout=timeout_s)

    def close(self) -> None:
        self._is_closed = True
        for waiter in self._waiters:
            _wake(waiter)

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiters and not self._is_closed:
                looked_at = loop.time()
                await self._look()
                await self._signals.wait_for_signal(ENDS, POLL_S)
                await asyncio.sleep(looked_at + PAUSE_S - loop.time())
        finally:
            self._watcher = None

    async def _look(self) -> None:
        """Wake the waiters whose task has ended."""
        # The store's answer does not cover waiters that arrive while it is asked.
        asked = dict(self._waiters)
        try:
            live = await self._store.live_tasks(list(set(asked.values())))
        except Unavailable as exc:
            # The waiters go on waiting: the watcher tries the store again every second.
            log.warning("ends_not_read", error=repr(exc))
            return
        for waiter, task in asked.items():
            if task not in live:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
