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
        """Seconds that only go forward, for spans within this process. Goes on while the process is stopped."""
        ...


class SystemClock:
    def now(self) -> Instant:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
