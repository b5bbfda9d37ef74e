"""Time and chance, which decisions only ever get as arguments."""

from __future__ import annotations

import time
from typing import Protocol

from crawlfleet.model.instants import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """Wall time: what people read. It may jump; no span is measured with it."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward, for spans within this machine. Goes on while the process is stopped and while
        the machine sleeps. Not the time of the event loop, whose timers count neither: a timer that ends something
        looks at this clock again."""
        ...


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


boot_time = _boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
"""Seconds since the machine started, sleep counted; the same for all processes of the machine. Where the system has no
such clock, those of the monotonic one."""


class SystemClock:
    def now(self) -> Instant:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return boot_time()
