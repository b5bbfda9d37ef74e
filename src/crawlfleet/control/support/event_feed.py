"""Reads the event log, and waits for its next events.

The log holds the truth; the broker only announces how far it goes. One watcher serves all waiters, asks the broker
often and the store once a second, and rests while there are no waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from crawlfleet.control.support.watcher import Watcher, wake_waiter
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
        self._watcher: Watcher[int] = Watcher(self._watch_log, "event feed")

    async def last_event(self) -> int:
        return await self._store.last_event()

    async def list_events(self, number: int, limit: int = BATCH) -> Sequence[Event]:
        return await self._store.events_after(number, limit)

    async def wait_for_event(self, number: int, timeout_s: float) -> bool:
        """Return whether the log goes beyond `number`; False after the timeout, or when the feed is closed."""
        if await self._broker.events.last_announced() > number:
            return True
        with self._watcher.add_waiter(number) as waiter:
            await self._watcher.wait_for(waiter, timeout_s)
            return waiter.done() and not self._watcher.is_closed

    def close(self) -> None:
        """Wake all waiters, and let no caller wait any more."""
        self._watcher.close()

    async def _watch_log(self) -> None:
        looks = 0
        while self._watcher.has_waiters:
            await asyncio.sleep(LOOK_S)
            looks += 1
            last = await self._broker.events.last_announced()
            if looks * LOOK_S >= POLL_S:
                looks = 0
                last = max(last, await self._read_last_event())
            for waiter, number in self._watcher.list_waiters():
                if last > number:
                    wake_waiter(waiter)

    async def _read_last_event(self) -> int:
        try:
            return await self._store.last_event()
        except Unavailable as exc:
            # The waiters go on waiting: the watcher tries the store again every second.
            log.warning("events_not_read", error=repr(exc))
            return 0
