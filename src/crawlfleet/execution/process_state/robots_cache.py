"""The robots.txt cache holds the rules of sites for all executions of a process, as they are the same for all of them.

Its imports are few on purpose: every executor process has a cache, and only those that crawl load what fills it.
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
"""Limit on the seconds that rules are kept: RFC 9309 allows a day."""
LEAST_S = 300.0
"""Least seconds that rules are kept, whatever the headers of a site: robots.txt is not requested with every page."""
FAILED_S = 60.0
HOSTS = 1_000
TOTAL_BYTES = 32 << 20
"""Limit on the size of all texts; the rules parsed from them take several times that."""
_MAX_AGE = re.compile(r"(?:^|[\s,])(?:s-maxage|max-age)\s*=\s*\"?([0-9]{1,10})", re.IGNORECASE)
_NO_CACHE = re.compile(r"(?:^|[\s,])no-(?:cache|store)\b", re.IGNORECASE)


@dataclass(slots=True)
class RobotsEntry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock of the caller that reads the robots.txt."""
    good_until: float = 0.0
    rules: Protego | None = None
    """Parsed rules; None if everything is allowed."""
    failure: PageFailed | None = None
    """Failure because of which the robots.txt cannot be read, so that nothing is allowed."""
    size_bytes: int = 0


class RobotsCache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, RobotsEntry] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get_entry(self, key: str) -> RobotsEntry:
        """Return the entry of a key, made if necessary; it becomes the most recently used one."""
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
        # A caller that still holds the entry may use it, and give it back its size.
        oldest.size_bytes = 0


def _span_s(cache_control: str) -> float:
    if _NO_CACHE.search(cache_control):
        return LEAST_S
    match = _MAX_AGE.search(cache_control)
    return KEPT_S if match is None else min(max(float(match[1]), LEAST_S), KEPT_S)
