"""Waits for tasks to end: one watcher for all waiters, however many there are and whichever tasks they wait for.

After a signal that tasks may have ended, or at the latest after a second, one read of the store finds which of the
tasks waited for are not live any more. The watcher rests while there are no waiters.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

import structlog

from crawlfleet.control.support.watcher import Watcher, wake_waiter
from crawlfleet.errors import Unavailable
from crawlfleet.model.ids import TaskId
from crawlfleet.ports.broker import ENDS, Signals
from crawlfleet.ports.task_store import TaskStore

POLL_S = 1.0
PAUSE_S = 0.005
"""Minimum pause in seconds between two reads of the store, however many signals come."""

log = structlog.get_logger()


class TaskCompletionWatcher:
    def __init__(self, *, store: TaskStore, signals: Signals) -> None:
        self._store = store
        self._signals = signals
        self._watcher: Watcher[TaskId] = Watcher(self._watch_tasks, "ends of tasks")

    def watch_task(self, task: TaskId) -> AbstractContextManager[asyncio.Future[None]]:
        """Return the context of a future that is done when the task is not live, or when waiting has been closed. Enter
        it before the task is read: a task that ends between the read and the wait for it must not be missed."""
        return self._watcher.add_waiter(task)

    async def wait_for_end(self, waiter: asyncio.Future[None], timeout_s: float) -> None:
        """Wait until the future is done, or the timeout is over."""
        await self._watcher.wait_for(waiter, timeout_s)

    def close(self) -> None:
        self._watcher.close()

    async def _watch_tasks(self) -> None:
        loop = asyncio.get_running_loop()
        while self._watcher.has_waiters:
            looked_at = loop.time()
            await self._wake_ended()
            await self._signals.wait_for_signal(ENDS, POLL_S)
            await asyncio.sleep(looked_at + PAUSE_S - loop.time())

    async def _wake_ended(self) -> None:
        """Wake the waiters whose task has ended."""
        # The store's answer does not cover waiters that arrive while it is asked.
        waiters = self._watcher.list_waiters()
        try:
            live = await self._store.live_tasks(list({task for _, task in waiters}))
        except Unavailable as exc:
            # The waiters go on waiting: the watcher tries the store again every second.
            log.warning("ends_not_read", error=repr(exc))
            return
        for waiter, task in waiters:
            if task not in live:
                wake_waiter(waiter)
