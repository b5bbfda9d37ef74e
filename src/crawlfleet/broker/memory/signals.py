"""Wake-up signals between the asyncio tasks of one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

_MAX_SIGNALS = 10_000


class MemorySignals:
    def __init__(self, max_signals: int = _MAX_SIGNALS) -> None:
        self._waiting: dict[str, list[asyncio.Future[bool]]] = {}
        self._unreceived: dict[str, None] = {}
        self._max_signals = max_signals

    async def send_signals(self, topics: Sequence[str]) -> None:
        for topic in topics:
            woken = False
            for waiter in self._waiting.pop(topic, ()):
                if not waiter.done():
                    waiter.set_result(True)
                    woken = True
            if not woken:
                self._keep_signal(topic)

    async def wait_for_signal(self, topic: str, timeout_s: float) -> bool:
        if topic in self._unreceived:
            del self._unreceived[topic]
            return True
        if timeout_s <= 0:
            return False
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        # A timer of its own costs a third of asyncio.timeout, and every node waits here all day.
        timer = loop.call_later(timeout_s, _end_wait, waiter)
        self._waiting.setdefault(topic, []).append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            # The signal reached a waiter that was cancelled: it is kept for the next caller that waits.
            if _was_woken(waiter):
                self._keep_signal(topic)
            raise
        finally:
            timer.cancel()
            self._forget_waiter(topic, waiter)

    def forget_all(self) -> None:
        self._unreceived.clear()

    def list_topics(self) -> set[str]:
        """Return the topics that take memory; for tests only."""
        return self._waiting.keys() | self._unreceived.keys()

    def _keep_signal(self, topic: str) -> None:
        self._unreceived[topic] = None
        if len(self._unreceived) > self._max_signals:
            del self._unreceived[next(iter(self._unreceived))]

    def _forget_waiter(self, topic: str, waiter: asyncio.Future[bool]) -> None:
        waiters = self._waiting.get(topic)
        if waiters is None or waiter not in waiters:
            return
        waiters.remove(waiter)
        if not waiters:
            del self._waiting[topic]


def _end_wait(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


def _was_woken(waiter: asyncio.Future[bool]) -> bool:
    return waiter.done() and not waiter.cancelled() and waiter.result()
