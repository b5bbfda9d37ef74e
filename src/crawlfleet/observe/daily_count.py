"""A count that begins anew at midnight (UTC)."""

from __future__ import annotations

_DAY_MS = 86_400_000


class DailyCount:
    def __init__(self) -> None:
        self._day = 0
        self._count = 0

    def add_one(self, now: int) -> None:
        """Count one more at this instant, in milliseconds."""
        self._count = self.count_today(now) + 1

    def count_today(self, now: int) -> int:
        if now // _DAY_MS != self._day:
            self._day, self._count = now // _DAY_MS, 0
        return self._count
