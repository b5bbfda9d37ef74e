"""Rings at an instant that may still be moved. A task of its own, so that nothing that hangs can hold it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawlfleet.ports.clock import Clock


class Alarm:
    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at: float | None = None
        self._moved = asyncio.Event()

    def set(self, at: float | None) -> None:
        if at != self._at:
            self._at = at
            self._moved.set()

    async def run(self) -> None:
        while True:
            self._moved.clear()
            left_s = None if self._at is None else self._at - self._clock.monotonic()
            if left_s is not None and left_s <= 0:
                self._at = None
                self._ring()
                continue
            try:
                async with asyncio.timeout(left_s):
                    await self._moved.wait()
            except TimeoutError:
                pass
