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
        self._channel = link.scoped_key("signals")
        self._unpublished: dict[str, None] = {}
        link.on_message(self._channel, self._handle_message)

    async def send_signals(self, topics: Sequence[str]) -> None:
        await self._local.send_signals(topics)
        if not topics or not self._link.state.is_up:
            return
        if not self._unpublished:
            # All topics woken in the same turn of the loop go into one message.
            asyncio.get_running_loop().call_soon(self._publish_topics)
        self._unpublished.update(dict.fromkeys(topics))

    async def wait_for_signal(self, topic: str, timeout_s: float) -> bool:
        return await self._local.wait_for_signal(topic, timeout_s)

    def _publish_topics(self) -> None:
        message = "\n".join([self._name, *self._unpublished])
        self._unpublished.clear()
        self._link.send_command("PUBLISH", self._channel, message)

    async def _handle_message(self, message: bytes) -> None:
        name, *topics = message.decode("utf-8", "replace").split("\n")
        if name != self._name:
            await self._local.send_signals(topics)
