"""A timer with a deadline that may be moved. It runs as a task of its own, so that no hanging call can delay it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from crawlfleet.ports.clock import Clock

CLOCK_CHECK_S = 1.0
"""How often the clock is checked: the event loop's timers stand still while the machine sleeps, the clock does not."""


class DeadlineTimer:
    """Calls `on_deadline` once at the deadline; `run` is its task."""

    def __init__(self, clock: Clock, on_deadline: Callable[[], None]) -> None:
        self._clock = clock
        self._on_deadline = on_deadline
        self._deadline = inf
        self._wakes_at = inf
        """Monotonic time at which the task wakes up by itself."""
        self._woken = asyncio.Event()

    def set_deadline(self, deadline: float | None) -> None:
        self._deadline = inf if deadline is None else deadline
        # A later deadline, as after every renewal, does not wake the task: it checks again at the old deadline.
        if self._deadline < self._wakes_at:
            self._woken.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            if self._deadline <= self._clock.monotonic():
                self._deadline = inf
                self._on_deadline()
                continue
            self._wakes_at = self._deadline
            timer = None
            if self._deadline < inf:
                timer = loop.call_later(min(CLOCK_CHECK_S, self._deadline - self._clock.monotonic()), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                self._wakes_at = inf
                if timer is not None:
                    timer.cancel()
