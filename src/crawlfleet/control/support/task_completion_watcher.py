"""Wait for tasks to end: one watcher for everybody who waits, however many they are and whatever they wait for.

A signal says that tasks may have ended, or at the latest a second passes, and then one look at the store finds which of
those waited for are not live any more. It rests while nobody waits.
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
"""Between two looks, however much happens."""

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
        """Done when the task is not live, or nobody may wait any more. To be entered before the task is looked at:
        what ends between a look and the wait for it must not be missed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            waiter.set_result(None)
        self._waiters[waiter] = task
        try:
            yield waiter
        finally:
            del self._waiters[waiter]

    async def wait(self, waiter: asyncio.Future[None], timeout_s: float) -> None:
        """Until it is done, or the time is over."""
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
                await self._signals.wait(ENDS, POLL_S)
                await asyncio.sleep(looked_at + PAUSE_S - loop.time())
        finally:
            self._watcher = None

    async def _look(self) -> None:
        """Wake those whose task has ended."""
        # Whoever comes while the store is asked is not spoken of in its answer.
        asked = dict(self._waiters)
        try:
            live = await self._store.live(list(set(asked.values())))
        except Unavailable as exc:
            # Whoever waits goes on waiting: the store's return is looked for every second.
            log.warning("ends_not_read", error=repr(exc))
            return
        for waiter, task in asked.items():
            if task not in live:
                _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
