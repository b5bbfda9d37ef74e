"""Pause and resume a queue: what is paused is accepted and kept, but not placed."""

from __future__ import annotations

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.ports.broker import LEADER, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import ReadyTasks
from crawlfleet.wire.tasks import unstorable


class Pause:
    def __init__(self, *, store: ReadyTasks, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def pause(self, queue: str) -> bool:
        """True when that changed something."""
        return await self._set(queue, is_paused=True)

    async def resume(self, queue: str) -> bool:
        return await self._set(queue, is_paused=False)

    async def _set(self, queue: str, *, is_paused: bool) -> bool:
        if not 0 < len(queue) <= limits.LABEL_CHARS or unstorable(queue):
            raise InvalidInput(f"a queue's name has 1 to {limits.LABEL_CHARS} characters", field="queue")
        has_changed = await self._store.set_queue_paused(queue, is_paused, self._clock.now())
        await self._broker.signals.wake([LEADER])
        return has_changed
