"""Clocks that tests control."""

from __future__ import annotations

import asyncio

from crawlfleet.model.instants import Instant

EPOCH = 1_767_225_600_000
"""The instant 2026-01-01T00:00:00Z."""


class VirtualClock:
    """The clock of one simulated process: its wall clock can be set wrong, its monotonic time is the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch_ms: Instant = EPOCH) -> None:
        self._loop = loop
        self._epoch_ms = epoch_ms
        self._offset_ms = 0
        # Called more often than anything else: not worth a frame of its own.
        self.monotonic = loop.time

    def now(self) -> Instant:
        return self._epoch_ms + self._offset_ms + int(self._loop.time() * 1_000_000 + 0.5) // 1000

    def jump(self, ms: int) -> None:
        """Set the wall clock forward, or back with a negative number."""
        self._offset_ms += ms


class FakeClock:
    """A clock for tests without a loop: time moves when the test advances it."""

    def __init__(self, start: Instant = EPOCH) -> None:
        self._wall_ms = float(start)
        self._monotonic = 0.0

    def now(self) -> Instant:
        return int(self._wall_ms)

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time only goes forward; jump() sets the wall clock")
        self._monotonic += seconds
        self._wall_ms += seconds * 1000

    def jump(self, ms: int) -> None:
        self._wall_ms += ms
