"""The highest announced number of the event log, published to every master as it grows, so that reading it is free.

Redis stores none of it: a master that subscribes later learns the number with the next event, or from the store.
"""

from __future__ import annotations

from crawlfleet.broker.memory.events import MemoryEventAnnouncements
from crawlfleet.broker.redis.connection import Link


class RedisEventAnnouncements:
    def __init__(self, link: Link, local: MemoryEventAnnouncements) -> None:
        self._link = link
        self._local = local
        self._channel = link.scoped_key("events")
        link.on_message(self._channel, self._handle_message)

    async def announce_event(self, number: int) -> None:
        await self._local.announce_event(number)
        self._link.send_command("PUBLISH", self._channel, number)

    async def last_announced(self) -> int:
        return await self._local.last_announced()

    async def _handle_message(self, message: bytes) -> None:
        if message.isdigit():
            await self._local.announce_event(int(message))
