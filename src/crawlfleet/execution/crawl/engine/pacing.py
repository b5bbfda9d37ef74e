"""Pacing per host: the spacing and the concurrency of requests. Only this module decides when a request may leave."""

from __future__ import annotations

import asyncio
import time

TOTAL = 64
"""Limit on pages under way at once, over all hosts of one execution."""
HOLD_MAX_S = 60.0


class HostPacing:
    def __init__(self, *, concurrency: int, delay_s: float = 0.0) -> None:
        self._concurrency = concurrency
        self._delay_s = delay_s
        self._delays: dict[str, float] = {}
        self._next_at: dict[str, float] = {}
        self._open_pages: dict[str, int] = {}
        self._total = 0

    def is_free(self, host: str) -> bool:
        return self._total < TOTAL and self._open_pages.get(host, 0) < self._concurrency

    def free_capacity(self, host: str) -> int:
        """Return how many more pages of the host may be under way."""
        return self._concurrency - self._open_pages.get(host, 0)

    def begin_page(self, host: str) -> None:
        self._total += 1
        self._open_pages[host] = self._open_pages.get(host, 0) + 1

    def end_page(self, host: str) -> None:
        self._total -= 1
        open_pages = self._open_pages.pop(host) - 1
        if open_pages:
            self._open_pages[host] = open_pages

    def slow_down(self, host: str, delay_s: float) -> None:
        """Apply the host's own crawl delay where it is longer than the task's delay."""
        self._delays[host] = max(self._delay_s, delay_s)

    def hold_back(self, host: str, seconds: float) -> None:
        """Hold back requests to the host for the given seconds, at most HOLD_MAX_S."""
        self._next_at[host] = max(self._next_at.get(host, 0.0), time.monotonic() + min(seconds, HOLD_MAX_S))

    async def wait_turn(self, host: str) -> None:
        """Wait until the next request to the host may leave."""
        delay_s = self._delays.get(host, self._delay_s)
        now = time.monotonic()
        leaves_at = max(now, self._next_at.get(host, 0.0))
        if delay_s > 0:
            self._next_at[host] = leaves_at + delay_s
        if leaves_at > now:
            await asyncio.sleep(leaves_at - now)
