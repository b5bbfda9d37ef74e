"""The highest announced number of the event log, in memory."""

from __future__ import annotations


class MemoryEventAnnouncements:
    def __init__(self) -> None:
        self._last = 0

    async def announce_event(self, number: int) -> None:
        # The maximum: around a change of leader two relays may announce in either order.
        self._last = max(self._last, number)

    async def last_announced(self) -> int:
        return self._last

    def forget_all(self) -> None:
        self._last = 0
