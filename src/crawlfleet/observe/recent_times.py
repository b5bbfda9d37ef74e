"""Recent times: measured spans of the last minutes, and their percentiles."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

WINDOW_S = 300.0
MAX_TIMES = 4_096
LEAST_TIMES = 100


class RecentTimes:
    """A sliding window of measured spans, bounded in time and number. Threads may add to it at once."""

    def __init__(self, window_s: float = WINDOW_S, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._window_s = window_s
        self._monotonic = monotonic
        self._times: deque[tuple[float, float]] = deque(maxlen=MAX_TIMES)
        self._lock = threading.Lock()

    def add_time(self, span_ms: float) -> None:
        with self._lock:
            self._times.append((self._monotonic(), span_ms))

    @property
    def p99(self) -> float | None:
        """The 99th percentile; None for less than a hundred spans, of which a single one would decide it."""
        return self.percentile(0.99) if self.count >= LEAST_TIMES else None

    @property
    def count(self) -> int:
        """Number of spans in the window."""
        self._drop_old()
        return len(self._times)

    def percentile(self, part: float) -> float | None:
        """The smallest span that at least this part of all spans does not exceed; None when there were none."""
        self._drop_old()
        with self._lock:
            spans = sorted(span for _, span in self._times)
        if not spans:
            return None
        return spans[max(0, math.ceil(part * len(spans)) - 1)]

    def _drop_old(self) -> None:
        since = self._monotonic() - self._window_s
        with self._lock:
            while self._times and self._times[0][0] < since:
                self._times.popleft()
