"""How many requests have left lately, for the price of an addition each."""

from __future__ import annotations

from collections import deque

LATELY_S = 1.25
"""Longer than the second in which a budget holds: what leaves is not there yet."""


class Lately:
    """Counts up; whoever asks sets marks, and the answer is since one that is old enough: rather more than less."""

    def __init__(self) -> None:
        self.count = 0
        self._marks: deque[tuple[float, int]] = deque()

    def mark(self, now: float) -> None:
        self._marks.append((now, self.count))
        while len(self._marks) > 1 and self._marks[1][0] <= now - LATELY_S:
            self._marks.popleft()

    def left(self, now: float) -> int:
        before = [count for at, count in self._marks if at <= now - LATELY_S]
        return self.count - (before[-1] if before else 0)
