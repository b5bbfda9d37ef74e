"""A rate over a sliding window: how fast something gets on of late, and how long the rest takes at that."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

SPAN_S = 15.0
LEAST_S = 1.5


class RateWindow:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()
        self._rate: float | None = None

    def add(self, done: int) -> float | None:
        """How many a second, as of this look; None while too little was seen."""
        now = self._clock()
        if self._seen and self._seen[-1][1] == done and now - self._seen[-1][0] <= SPAN_S:
            # Figures come every few seconds: a look between two of them says nothing new.
            return self._rate
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > SPAN_S:
            self._seen.popleft()
        since, before = self._seen[0]
        self._rate = None if now - since < LEAST_S else (done - before) / (now - since)
        return self._rate
