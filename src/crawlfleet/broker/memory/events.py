"""How far events were published. Nobody listens within this process yet: who wants the events reads the log."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import Event


class MemoryEventFan:
    def __init__(self) -> None:
        self._last = 0

    async def publish(self, events: Sequence[Event]) -> None:
        for event in events:
            # Around a change of leader two relays may publish in either order.
            self._last = max(self._last, event.number)

    async def last_published(self) -> int:
        return self._last

    def forget(self) -> None:
        self._last = 0
