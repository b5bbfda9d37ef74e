"""The site's memory of its visitors: the number of requests in the last second, and of each kind in all."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

KEYS_KEPT = 100_000


class RateGate:
    """A rate limit: open for at most `most` requests in any sliding second; refused requests do not count."""

    def __init__(self, max_per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.max_per_second = max_per_second
        self._clock = clock
        self._let_in: deque[float] = deque()

    def is_open(self) -> bool:
        now = self._clock()
        while self._let_in and now - self._let_in[0] >= 1.0:
            self._let_in.popleft()
        if len(self._let_in) >= self.max_per_second:
            return False
        self._let_in.append(now)
        return True


class Memory:
    """The rate limits and counters of a site."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        """Clock by which a second is measured; a test may replace it."""
        self._gates: dict[str, RateGate] = {}
        self._counts: Counter[str] = Counter()

    def is_open(self, gate_name: str, max_per_second: int) -> bool:
        gate = self._gates.get(gate_name)
        if gate is None or gate.max_per_second != max_per_second:
            if len(self._gates) >= KEYS_KEPT:
                self._gates.clear()
            gate = self._gates[gate_name] = RateGate(max_per_second, self.clock)
        return gate.is_open()

    def count(self, what: str) -> int:
        """Count an occurrence; returns how often it has happened, this one included."""
        if len(self._counts) >= KEYS_KEPT:
            self._counts.clear()
        self._counts[what] += 1
        return self._counts[what]
