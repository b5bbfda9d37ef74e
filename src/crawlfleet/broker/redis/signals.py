"""Wake-up signals between masters: each master keeps its own waiters, and publishes the topics that it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import uuid4

from crawlfleet.broker.memory.signals import MemorySignals
from crawlfleet.broker.redis.connection import Link


class RedisSignals:
    def __init__(self, link: Link, local: MemorySignals) -> None:
        self._link = link
        self._local = local
        self._name = uuid4().hex
        self._channel = link.key("signals")
        self._untold: dict[str, None] = {}
        link.on_message(self._channel, self._hear)

    async def wake(self, topics: Sequence[str]) -> None:
        await self._local.wake(topics)
        if not topics or not self._link.state.is_up:
            return
        if not self._untold:
            # All topics woken in the same turn of the loop go into one message.
            asyncio.get_running_loop().call_soon(self._tell)
        self._untold.update(dict.fromkeys(topics))

    async def wait(self, topic: str, timeout_s: float) -> bool:
        return await self._local.wait(topic, timeout_s)

    def _tell(self) -> None:
        said = "\n".join([self._name, *self._untold])
        self._untold.clear()
        self._link.tell("PUBLISH", self._channel, said)

    async def _hear(self, message: bytes) -> None:
        name, *topics = message.decode("utf-8", "replace").split("\n")
        if name != self._name:
            await self._local.wake(topics)
