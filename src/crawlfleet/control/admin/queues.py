"""Pauses and resumes a queue, or sets its order: tasks of a paused queue are accepted and kept, but not placed.

When a pause is answered, the leader on this master assigns nothing of the queue any more: it reads the queues again
before its next dispatch round, and what it had chosen before is assigned by then. A leader on another master receives
the same signal, or finds the change within a second.
"""

from __future__ import annotations

import asyncio

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.queue_store import QueueStore
from crawlfleet.wire.tasks import storage_problem


class Pause:
    def __init__(self, *, store: QueueStore, broker: Broker, clock: Clock, placing: asyncio.Lock) -> None:
        """Create the service; `placing` is held by the dispatcher of this master from its read to its commit."""
        self._store = store
        self._broker = broker
        self._clock = clock
        self._placing = placing

    async def pause_queue(self, queue: str) -> bool:
        """Pause the queue; returns True when that changed something."""
        has_changed = await self._set_paused(queue, is_paused=True)
        async with self._placing:
            return has_changed

    async def resume_queue(self, queue: str) -> bool:
        return await self._set_paused(queue, is_paused=False)

    async def set_order(self, queue: str, *, is_lifo: bool) -> bool:
        """Set whether the last or the first of the waiting tasks is placed first. Returns True when that changed
        something."""
        _check_queue_name(queue)
        has_changed = await self._store.set_queue_order(queue, is_lifo, self._clock.now())
        await self._broker.signals.send_signals([LOOK, LEADER])
        return has_changed

    async def _set_paused(self, queue: str, *, is_paused: bool) -> bool:
        _check_queue_name(queue)
        has_changed = await self._store.set_queue_paused(queue, is_paused, self._clock.now())
        await self._broker.signals.send_signals([LOOK, LEADER])
        return has_changed


def _check_queue_name(queue: str) -> None:
    if not 0 < len(queue) <= limits.LABEL_CHARS or storage_problem(queue):
        raise InvalidInput(f"a queue's name has 1 to {limits.LABEL_CHARS} characters", field="queue")
