"""Wake-up signals between the asyncio tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

_KEPT = 10_000


class MemorySignals:
    def __init__(self, kept: int = _KEPT) -> None:
        self._waiting: dict[str, list[asyncio.Future[bool]]] = {}
        self._kept: dict[str, None] = {}
        self._may_keep = kept

    async def wake(self, topics: Sequence[str]) -> None:
        for topic in topics:
            woken = False
            for waiter in self._waiting.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(True)
                    woken = True
            if not woken:
                self._keep(topic)

    async def wait(self, topic: str, timeout_s: float) -> bool:
        if topic in self._kept:
            del self._kept[topic]
            return True
        if timeout_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        # A timer of its own costs a third of asyncio.timeout, and every node waits here all day.
        timer = loop.call_later(timeout_s, _end, waiter)
        self._waiting.setdefault(topic, []).append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # The signal reached a waiter that was cancelled: it is kept for the next caller that waits.
            if _was_woken(waiter):
                self._keep(topic)
            raise
        finally:
            timer.cancel()
            self._forget_waiter(topic, waiter)

    def forget(self) -> None:
        self._kept.clear()

    def topics(self) -> set[str]:
        """Return the topics that take memory; for tests only."""
        return self._waiting.keys() | self._kept.keys()

    def _keep(self, topic: str) -> None:
        self._kept[topic] = None
        if len(self._kept) > self._may_keep:
            del self._kept[next(iter(self._kept))]

    def _forget_waiter(self, topic: str, waiter: asyncio.Future[bool]) -> None:
        waiters = self._waiting.get(topic)
        if waiters is None or waiter not in waiters:
            return
        waiters.remove(waiter)
        if not waiters:
            del self._waiting[topic]


def _end(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


def _was_woken(waiter: asyncio.Future[bool]) -> bool:
    return waiter.done() and not waiter.cancelled() and waiter.result()
