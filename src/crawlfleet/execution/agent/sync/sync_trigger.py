"""The trigger of the next sync: when it is due, and a wake-up for the sync loop."""

from __future__ import annotations

import asyncio

from crawlfleet.ports.clock import Clock


class SyncTrigger:
    """Keeps the time by which the next sync is due, and wakes the sync loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken = asyncio.Event()
        self.due_at: float | None = None
        """Monotonic time by which the next sync has to go; None while nothing new is to be reported."""

    def schedule_sync(self, within_s: float = 0.0) -> None:
        due_at = self._clock.monotonic() + within_s
        if self.due_at is None or due_at < self.due_at:
            self.due_at = due_at
        self.wake()

    def sync_sent(self) -> None:
        self.due_at = None

    def wake(self) -> None:
        """Wake the sync loop to look again at what is due, without scheduling a sync."""
        self._woken.set()

    async def wait_until(self, until: float | None) -> None:
        """Return at a wake-up, or at `until` by the monotonic clock."""
        timer = None
        if until is not None:
            left_s = max(0.0, until - self._clock.monotonic())
            timer = asyncio.get_running_loop().call_later(left_s, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._woken.clear()
