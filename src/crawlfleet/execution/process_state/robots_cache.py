"""What is known of sites' robots.txt, for all executions of a process: it is the same for everybody.

Light on purpose: every executor process has one, only those that crawl load what fills it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crawlfleet.execution.page_failures import PageFailed

if TYPE_CHECKING:
    from protego import Protego

KEPT_S = 86_400.0
"""RFC 9309: no longer than a day."""
LEAST_S = 300.0
"""Whatever a site says of caching: its robots.txt is not asked for with every page."""
FAILED_S = 60.0
HOSTS = 1_000
TOTAL_BYTES = 32 << 20
"""Of texts; what is made of them is several times that."""
_MAX_AGE = re.compile(r"(?:^|[\s,])(?:s-maxage|max-age)\s*=\s*\"?([0-9]{1,10})", re.IGNORECASE)
_NO_CACHE = re.compile(r"(?:^|[\s,])no-(?:cache|store)\b", re.IGNORECASE)


@dataclass(slots=True)
class RobotsEntry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Who reads it."""
    good_until: float = 0.0
    rules: Protego | None = None
    """None: everything is allowed."""
    failure: PageFailed | None = None
    """Why it cannot be had: nothing is allowed."""
    size_bytes: int = 0


class RobotsCache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, RobotsEntry] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get_entry(self, key: str) -> RobotsEntry:
        """The last one that was asked for goes last."""
        entry = self._entries.pop(key, None) or RobotsEntry()
        self._entries[key] = entry
        if len(self._entries) > HOSTS:
            self._forget_oldest()
        return entry

    def is_good(self, entry: RobotsEntry) -> bool:
        return self._clock() < entry.good_until

    def keep_rules(
        self, entry: RobotsEntry, rules: Protego | None, *, size_bytes: int = 0, cache_control: str = ""
    ) -> None:
        entry.rules, entry.failure = rules, None
        entry.good_until = self._clock() + _span_s(cache_control)
        self._bytes += size_bytes - entry.size_bytes
        entry.size_bytes = size_bytes
        while self._bytes > TOTAL_BYTES and len(self._entries) > 1:
            self._forget_oldest()

    def keep_failure(self, entry: RobotsEntry, failure: PageFailed, for_s: float = FAILED_S) -> None:
        entry.rules, entry.failure = None, failure
        entry.good_until = self._clock() + for_s

    def _forget_oldest(self) -> None:
        oldest = self._entries.pop(next(iter(self._entries)))
        self._bytes -= oldest.size_bytes
        # Whoever holds it still may use it, and give it back its size.
        oldest.size_bytes = 0


def _span_s(cache_control: str) -> float:
    if _NO_CACHE.search(cache_control):
        return LEAST_S
    match = _MAX_AGE.search(cache_control)
    return KEPT_S if match is None else min(max(float(match[1]), LEAST_S), KEPT_S)
