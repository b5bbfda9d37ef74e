"""A sliding window that counts recent requests, at the cost of one addition for each."""

from __future__ import annotations

from collections import deque

WINDOW_S = 1.25
"""Length of the window: longer than the second of a budget, as a request that left has not arrived yet."""


class DepartureWindow:
    """Counts requests. `tick` sets a mark now and then; the recent count starts at the newest mark that is old enough,
    so it is rather too high than too low."""

    def __init__(self) -> None:
        self.total = 0
        self._marks: deque[tuple[float, int]] = deque()

    def tick(self, now: float) -> None:
        self._marks.append((now, self.total))
        while len(self._marks) > 1 and self._marks[1][0] <= now - WINDOW_S:
            self._marks.popleft()

    def recent_count(self, now: float) -> int:
        before = [count for instant, count in self._marks if instant <= now - WINDOW_S]
        return self.total - (before[-1] if before else 0)
