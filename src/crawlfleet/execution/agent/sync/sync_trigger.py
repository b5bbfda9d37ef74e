"""Something the masters should hear: by when it has to go, and a wake-up for the loop that tells them."""

from __future__ import annotations

import asyncio

from crawlfleet.ports.clock import Clock


class News:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken = asyncio.Event()
        self.due_at: float | None = None

    def tell(self, within_s: float = 0.0) -> None:
        due_at = self._clock.monotonic() + within_s
        if self.due_at is None or due_at < self.due_at:
            self.due_at = due_at
        self.wake()

    def told(self) -> None:
        self.due_at = None

    def wake(self) -> None:
        """Look again at what is due; nothing new has to be told."""
        self._woken.set()

    async def wait(self, until: float | None) -> None:
        """Returns at a wake-up, or at `until` by the monotonic clock."""
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
