"""The Redis broker, composed of its parts, and what it does when Redis is lost or comes back."""

from __future__ import annotations

from typing import Self
from uuid import uuid4

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.broker.memory.ready import TAKEN_MEMORY_S
from crawlfleet.broker.redis import scripts
from crawlfleet.broker.redis.connection import OWNER_KEY, Away, Link, LinkState, OnChange
from crawlfleet.broker.redis.connection_factory import MAX_CONNECTIONS, POOL_TIMEOUT_S, ConnectionFactory
from crawlfleet.broker.redis.events import RedisEventAnnouncements
from crawlfleet.broker.redis.freed_slots import RedisFreedSlotFeed
from crawlfleet.broker.redis.node_measurements import RedisNodeMeasurements
from crawlfleet.broker.redis.progress import RedisProgress
from crawlfleet.broker.redis.ready import RedisReadyIndex
from crawlfleet.broker.redis.signals import RedisSignals
from crawlfleet.model.instants import to_text
from crawlfleet.ports.broker import LEADER, LOOK, BrokerMemory

MAX_FREED_SLOTS = 100_000
MAX_NODES = 50_000
MAX_EXECUTIONS = 10_000


class RedisBroker:
    """Broker for many masters. Each master holds two connections: one for commands, one for subscriptions."""

    def __init__(self, link: Link, *, window: int, total: int, taken_kept_s: float) -> None:
        self._link = link
        local = self._local = MemoryBroker(window, total)
        self.ready_index = RedisReadyIndex(
            link, local.ready_index, window=window, total=total, taken_kept_s=taken_kept_s
        )
        self.signals = RedisSignals(link, local.signals)
        self.freed_slots = RedisFreedSlotFeed(link, local.freed_slots, MAX_FREED_SLOTS)
        self.events = RedisEventAnnouncements(link, local.events)
        self.measurements = RedisNodeMeasurements(link, local.measurements, MAX_NODES)
        self.progress = RedisProgress(link, local.progress, MAX_EXECUTIONS)
        self._local_generation = ""

    @classmethod
    async def connect(
        cls,
        url: str,
        installation: str,
        *,
        window: int = 2_000,
        total: int = 200_000,
        taken_kept_s: float = TAKEN_MEMORY_S,
        max_connections: int = MAX_CONNECTIONS,
        pool_timeout_s: float = POOL_TIMEOUT_S,
        on_change: OnChange | None = None,
    ) -> Self:
        """Connect the broker of an installation. Raises ConfigError for a Redis of another installation or a wrong
        password; a Redis that is away is awaited in the background."""
        factory = ConnectionFactory(url, max_connections=max_connections, pool_timeout_s=pool_timeout_s)
        broker = cls(Link(factory, installation, on_change), window=window, total=total, taken_kept_s=taken_kept_s)
        await broker._link.start(broker._handle_link_change)
        return broker

    @property
    def state(self) -> LinkState:
        return self._link.state

    @property
    def failure_reason(self) -> str | None:
        state = self._link.state
        return None if state.is_up else f"Redis is away since {to_text(state.since)}: {state.last_error}"

    async def is_up(self) -> bool:
        """Send a command to Redis, and return whether it answers."""
        try:
            await self._link.call_command("PING")
        except Away:
            return False
        return True

    async def load_memory(self) -> BrokerMemory | None:
        try:
            # By a script, which catches a refusal: one of a plain command would end the connection.
            return read_memory(await self._link.call_script(scripts.MEMORY_INFO, OWNER_KEY))
        except Away:
            return None

    async def load_generation(self) -> str:
        try:
            return await self._link.load_generation()
        except Away:
            return self._local_generation

    async def close(self) -> None:
        self.measurements.close()
        await self._link.close()

    async def _handle_link_change(self, is_up: bool) -> None:
        is_first = not self._local_generation
        self._local_generation = f"local-{uuid4().hex}"
        self._local.ready_index.forget_all()
        self._local.measurements.forget_all()
        if is_up:
            await self.freed_slots.post_local_slots()
        if not is_first:
            # The leader has another ready index to fill: wake it, so that it looks at the store at once.
            await self._local.signals.send_signals([LOOK, LEADER])


def read_memory(info: object) -> BrokerMemory | None:
    """Read the memory section of Redis's INFO; None where Redis has no limit, or may not tell."""
    text = info.decode("utf-8", "replace") if isinstance(info, bytes) else str(info)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    used, limit = fields.get("used_memory", ""), fields.get("maxmemory", "")
    if not used.isdigit() or not limit.isdigit() or int(limit) == 0:
        return None
    return BrokerMemory(int(used) / int(limit), fields.get("maxmemory_policy", ""))
