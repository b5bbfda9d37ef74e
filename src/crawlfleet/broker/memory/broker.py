"""The memory broker, composed of its parts."""

from __future__ import annotations

import random

from crawlfleet.broker.memory.events import MemoryEventAnnouncements
from crawlfleet.broker.memory.freed_slots import MemoryFreedSlotFeed
from crawlfleet.broker.memory.node_measurements import MemoryNodeMeasurements
from crawlfleet.broker.memory.progress import MemoryProgress
from crawlfleet.broker.memory.ready import MemoryReadyIndex
from crawlfleet.broker.memory.signals import MemorySignals
from crawlfleet.ports.broker import BrokerMemory

_GENERATION_BITS = 64


class MemoryBroker:
    """Broker for one master; in the simulation several masters share the object, as they would share a Redis server."""

    def __init__(self, window: int = 2_000, total: int = 200_000, rng: random.Random | None = None) -> None:
        self._rng = rng or random.Random()
        self.ready_index = MemoryReadyIndex(window, total)
        self.signals = MemorySignals()
        self.freed_slots = MemoryFreedSlotFeed()
        self.events = MemoryEventAnnouncements()
        self.measurements = MemoryNodeMeasurements()
        self.progress = MemoryProgress()
        self._generation = self._new_generation()

    failure_reason = None

    async def load_memory(self) -> BrokerMemory | None:
        return None

    async def load_generation(self) -> str:
        return self._generation

    async def forget_all(self) -> None:
        """Forget everything at once, as a flushed Redis server does, for tests. Waiting callers go on waiting."""
        self.ready_index.forget_all()
        self.signals.forget_all()
        self.freed_slots.forget_all()
        self.events.forget_all()
        self.measurements.forget_all()
        self.progress.forget_all()
        self._generation = self._new_generation()

    async def close(self) -> None:
        """Do nothing: a master that stops must not remove the hints of the other masters."""

    def _new_generation(self) -> str:
        return f"{self._rng.getrandbits(_GENERATION_BITS):016x}"
