"""Holds whether this master leads, and under which term. The leader's loops share it; only the leader loop sets it."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_BEATS = 600
"""Number of heartbeats whose times are remembered."""


class LeadershipState:
    def __init__(self) -> None:
        self._term: int | None = None
        self.is_unled = False
        """Whether this master sees that no master leads; set by the loop that watches for it."""
        self._is_leading = asyncio.Event()
        self._beats: deque[tuple[float, float]] = deque(maxlen=MAX_BEATS)

    @property
    def term(self) -> int | None:
        return self._term

    def start_term(self, term: int) -> None:
        self._term = term
        self._is_leading.set()

    def record_beat(self, began: float, took_s: float) -> None:
        """Record how long the commit of a heartbeat took: it is the most regular of all commits."""
        self._beats.append((began, took_s))

    def beat_times(self, since: float) -> list[float]:
        """Return the seconds that heartbeats took that began after `since`, by the monotonic clock."""
        return [took_s for began, took_s in self._beats if began > since]

    async def wait_for_term(self) -> None:
        await self._is_leading.wait()

    def end_term(self, term: int | None = None) -> None:
        """End `term`, or the current one if none is named. A newer term that was won meanwhile stands."""
        if term is None or term == self._term:
            self._term = None
            self._is_leading.clear()
