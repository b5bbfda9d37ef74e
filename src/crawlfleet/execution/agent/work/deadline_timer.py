"""Rings at an instant that may still be moved. A task of its own, so that nothing that hangs can hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from crawlfleet.ports.clock import Clock

LOOK_S = 1.0
"""How often the clock is looked at: the timers of the loop stand still while the machine sleeps, the clock goes on."""


class Alarm:
    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at = inf
        self._looks_at = inf
        """When the task wakes up by itself."""
        self._woken = asyncio.Event()

    def set(self, at: float | None) -> None:
        self._at = inf if at is None else at
        # Moved away, as by every renewal, it wakes nobody: the task looks again when the old time has come.
        if self._at < self._looks_at:
            self._woken.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            if self._at <= self._clock.monotonic():
                self._at = inf
                self._ring()
                continue
            self._looks_at = self._at
            timer = None
            if self._at < inf:
                timer = loop.call_later(min(LOOK_S, self._at - self._clock.monotonic()), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                self._looks_at = inf
                if timer is not None:
                    timer.cancel()
