"""A watcher: one task that watches for all callers that wait, however many there are.

What is watched is up to the owner of the watcher, in its coroutine function `watch`. That is started with the first
caller that has to wait, and returns when there are no waiters: the watcher then rests until the next caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT")


class Watcher(Generic[KeyT]):
    def __init__(self, watch: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Create the watcher; `watch` goes on while `has_waiters`, and wakes those whose key is due."""
        self._watch = watch
        self._name = name
        self._waiters: dict[asyncio.Future[None], KeyT] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def has_waiters(self) -> bool:
        """Whether a caller waits; False when waiting has been closed."""
        return bool(self._waiters) and not self._is_closed

    def list_waiters(self) -> list[tuple[asyncio.Future[None], KeyT]]:
        """Return the present waiters with what each waits for."""
        return list(self._waiters.items())

    @contextmanager
    def add_waiter(self, key: KeyT) -> Iterator[asyncio.Future[None]]:
        """Yield a future that is done when the waiter is woken, or when waiting has been closed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            waiter.set_result(None)
        self._waiters[waiter] = key
        try:
            yield waiter
        finally:
            del self._waiters[waiter]

    async def wait_for(self, waiter: asyncio.Future[None], timeout_s: float) -> None:
        """Wait until the future is done, or the timeout is over."""
        if self._task is None and not waiter.done():
            self._task = asyncio.create_task(self._run_watch(), name=self._name)
        await asyncio.wait([waiter], timeout=timeout_s)

    def close(self) -> None:
        """Wake all waiters, and let no caller wait any more."""
        self._is_closed = True
        for waiter in self._waiters:
            wake_waiter(waiter)

    async def _run_watch(self) -> None:
        try:
            await self._watch()
        finally:
            self._task = None


def wake_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
