"""Clocks and randomness: decisions only ever receive them as arguments."""

from __future__ import annotations

import time
from typing import Protocol

from crawlfleet.model.instants import Instant


class Clock(Protocol):
    """The wall clock and the monotonic clock of a process."""

    def now(self) -> Instant:
        """Return the wall time, which people read. It may jump; no span is measured with it."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only go forward, for spans within this machine.

        The clock goes on while the process is stopped and while the machine sleeps. It is not the time of the event
        loop, whose timers count neither: a timer that ends something checks this clock again.
        """
        ...


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


boot_time = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Seconds since the machine started, sleep included; the same for all processes of the machine. Where the system has no
such clock, the seconds of the monotonic clock."""


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> Instant:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return boot_time()
