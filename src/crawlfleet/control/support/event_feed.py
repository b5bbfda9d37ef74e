"""Reads the event log, and waits for its next events.

The log holds the truth; the broker only announces how far it goes. One watcher serves all waiters, asks the broker
often and the store once a second, and rests while there are no waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from crawlfleet.errors import Unavailable
from crawlfleet.model.event import Event
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.event_store import EventStore

LOOK_S = 0.1
POLL_S = 1.0
BATCH = 500

log = structlog.get_logger()


class EventFeed:
    def __init__(self, *, store: EventStore, broker: Broker) -> None:
        self._store = store
        self._broker = broker
        self._waiters: dict[asyncio.Future[None], int] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._is_closed = False

    async def last(self) -> int:
        return await self._store.last_event()

    async def after(self, number: int, limit: int = BATCH) -> Sequence[Event]:
        return await self._store.events_after(number, limit)

    async def wait(self, number: int, timeout_s: float) -> bool:
        """Return whether the log goes beyond `number`; False after the timeout, or when the feed is closed."""
        if await self._broker.events.last_announced() > number:
            return True
        if self._is_closed:
            return False
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = number
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._watch(), name="event feed")
        try:
            async with asyncio.timeout(timeout_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.pop(waiter, None)
        return not self._is_closed

    def close(self) -> None:
        """Wake all waiters, and let no caller wait any more."""
        self._is_closed = True
        for waiter in self._waiters:
            _wake(waiter)

    async def _watch(self) -> None:
        looks = 0
        try:
            while self._waiters:
                await asyncio.sleep(LOOK_S)
                looks += 1
                last = await self._broker.events.last_announced()
                if looks * LOOK_S >= POLL_S:
                    looks = 0
                    last = max(last, await self._stored())
                for waiter, number in self._waiters.items():
                    if last > number:
                        _wake(waiter)
        finally:
            self._watcher = None

    async def _stored(self) -> int:
        try:
            return await self._store.last_event()
        except Unavailable as exc:
            # The waiters go on waiting: the watcher tries the store again every second.
            log.warning("events_not_read", error=repr(exc))
            return 0


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
