"""Opens a broker by its address, and records an event when the connection to the broker is lost or comes back."""

from __future__ import annotations

import asyncio

import structlog

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.redis import RedisBroker
from crawlfleet.broker.redis.connection_factory import MAX_CONNECTIONS, POOL_TIMEOUT_S
from crawlfleet.errors import Unavailable
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.observe.daily_count import DailyCount
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore

AGAIN_S = 1.0

log = structlog.get_logger()


def broker_kind(address: str) -> str:
    """Name the kind of the broker, without its address: memory or redis."""
    return "memory" if is_memory(address) else "redis"


def is_memory(address: str) -> bool:
    """Return whether the broker is the one in memory, which carries nothing to another process."""
    return address == "memory:"


class BrokerEventWriter:
    """Writes an event for each loss and each return of the broker, as soon as the store can take it."""

    def __init__(self, store: EventStore, clock: Clock, master: str) -> None:
        self._store = store
        self._clock = clock
        self._master = master
        self._writing: set[asyncio.Task[None]] = set()
        self.losses = DailyCount()

    def write_event(self, is_up: bool, why: str) -> None:
        if not is_up:
            self.losses.add_one(self._clock.now())
        batch = EventBatch(Kind.BROKER_BACK if is_up else Kind.BROKER_LOST, shared={"master": self._master, "why": why})
        task = asyncio.create_task(self._write_batch(batch), name="broker news")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def close(self) -> None:
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    async def _write_batch(self, batch: EventBatch) -> None:
        now = self._clock.now()
        while True:
            try:
                await self._store.record_events([batch], now)
                return
            except Unavailable:
                await asyncio.sleep(AGAIN_S)


async def open_broker(
    address: str,
    installation: str,
    events: BrokerEventWriter,
    *,
    max_connections: int = MAX_CONNECTIONS,
    pool_timeout_s: float = POOL_TIMEOUT_S,
) -> Broker:
    """Open the broker at the address. Raises ConfigError for a Redis of another installation; a Redis that cannot be
    reached is waited for in the background."""
    if is_memory(address):
        return MemoryBroker()
    return await RedisBroker.connect(
        address,
        installation,
        max_connections=max_connections,
        pool_timeout_s=pool_timeout_s,
        on_change=events.write_event,
    )
