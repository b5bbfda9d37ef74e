"""For the tests of the Redis broker: brokers that are closed in the end, and waiting for conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import redis

from crawlfleet.broker.redis import RedisBroker
from crawlfleet.model.node import Measurement
from crawlfleet.ports.broker import LEADER, Window, node_topic
from testkit.patience import PATIENCE_S
from testkit.servers import RedisServer

INSTALLATION = "0011aabb"
PREFIX = f"crawlfleet:{{{INSTALLATION}}}:"
OWNER = "crawlfleet:owner"

Condition = Callable[[], Awaitable[object] | object]


async def until(condition: Condition, within_s: float = PATIENCE_S) -> None:
    """Ask often, so that a test takes as long as what it waits for."""
    deadline = time.monotonic() + within_s
    while True:
        answer = condition()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return
        assert time.monotonic() < deadline, f"not within {within_s:g} s"
        await asyncio.sleep(0.01)


class Brokers:
    def __init__(self, server: RedisServer) -> None:
        self.server = server
        self.client: Any = redis.Redis.from_url(server.url, decode_responses=True)
        self._opened: list[RedisBroker] = []

    async def one(self, url: str = "", installation: str = INSTALLATION, **options: Any) -> RedisBroker:
        broker = await RedisBroker.connect(url or self.server.url, installation, **options)
        self._opened.append(broker)
        return broker

    async def two(self) -> tuple[RedisBroker, RedisBroker]:
        return await self.one(), await self.one()

    def connected(self) -> int:
        """Connections at the server, without our own."""
        return len(self.client.client_list()) - 1

    async def close(self) -> None:
        for broker in self._opened:
            await broker.close()
        self.client.close()


@asynccontextmanager
async def brokers_on(server: RedisServer) -> AsyncIterator[Brokers]:
    brokers = Brokers(server)
    try:
        yield brokers
    finally:
        await brokers.close()


async def use(broker: RedisBroker) -> None:
    """Every part, whatever it answers."""
    await broker.ready_index.offer_tasks({1: [1]})
    await broker.ready_index.list_windows()
    await broker.ready_index.pop_tasks({1: 1})
    await broker.ready_index.refill_window(1, [2], is_deep=False)
    await broker.ready_index.discard_tasks([(1, 2)])
    await broker.ready_index.clear()
    await broker.signals.send_signals([node_topic(1)])
    assert await broker.signals.wait_for_signal(node_topic(1), 0)
    await broker.freed_slots.post_slots([(1, 1)])
    await broker.freed_slots.pop_slots()
    await broker.events.announce_event(1)
    await broker.events.last_announced()
    await broker.measurements.put_measurement(1, Measurement())
    await broker.measurements.load_measurements()
    await broker.progress.put_progress({1: b"{}"})
    await broker.progress.load_progress([1])
    await broker.load_generation()
    await broker.is_up()


async def assert_works_locally(broker: RedisBroker) -> None:
    await broker.ready_index.clear()
    await broker.ready_index.offer_tasks({1: [4, 3]})
    assert await broker.ready_index.list_windows() == [Window(1, 3, 2, is_deep=False)]
    assert await broker.ready_index.pop_tasks({1: 1}) == {1: [3]}
    await broker.freed_slots.post_slots([(8, 9)])
    assert await broker.freed_slots.pop_slots() == [(8, 9)]
    await broker.measurements.put_measurement(1, Measurement(cpu=0.25))
    assert await broker.measurements.load_measurements() == {1: Measurement(cpu=0.25)}
    await broker.progress.put_progress({1: b'{"pages":2}'})
    assert await broker.progress.load_progress([1, 2]) == {1: b'{"pages":2}'}
    await broker.events.announce_event(3)
    assert await broker.events.last_announced() == 3
    await broker.signals.send_signals([LEADER])
    assert await broker.signals.wait_for_signal(LEADER, 0)
    assert not await broker.is_up()
