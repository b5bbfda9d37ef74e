"""What the site remembers of its visitors: how many requests in the last second, and how often each came."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable

KEYS_KEPT = 100_000


class RateGate:
    """Open for at most so many in any sliding second; those who are turned away do not count."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._let_in: deque[float] = deque()

    def is_open(self) -> bool:
        now = self._clock()
        while self._let_in and now - self._let_in[0] >= 1.0:
            self._let_in.popleft()
        if len(self._let_in) >= self.most:
            return False
        self._let_in.append(now)
        return True


class Memory:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        """By which a second is measured; a test may put another in its place."""
        self._gates: dict[str, RateGate] = {}
        self._counts: Counter[str] = Counter()

    def is_open(self, door: str, most: int) -> bool:
        gate = self._gates.get(door)
        if gate is None or gate.most != most:
            if len(self._gates) >= KEYS_KEPT:
                self._gates.clear()
            gate = self._gates[door] = RateGate(most, self.clock)
        return gate.is_open()

    def count(self, what: str) -> int:
        """How often this has happened, with this time."""
        if len(self._counts) >= KEYS_KEPT:
            self._counts.clear()
        self._counts[what] += 1
        return self._counts[what]
