"""The gate before the site's pages: it holds answers back until they are released, so that a test can act half way.

`TEST_SITE_PAGE_DELAY_S` sets what every page takes, whatever a caller asked for: a whole run of tests can be made
with a site that answers at once, or slowly.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass

PREFIX = "/-/"
"""Of the site's own doors, which are no pages."""
DELAY_VARIABLE = "TEST_SITE_PAGE_DELAY_S"
_NEVER_HELD = "/robots.txt"


class PageGate:
    """Open at first. Closed for a pattern, it holds the requests for pages that match until it is opened for them.

    Neither `/robots.txt` nor the doors under `/-/` are pages: a crawl gets as far as its pages, and a test can look.
    Not for another thread than that of the site.
    """

    def __init__(self) -> None:
        self._closed: dict[str, _Closing] = {}
        self._changed = asyncio.Event()

    def held(self, pattern: str | None = None) -> int:
        """How many requests are being held now, for one pattern or for all."""
        return sum(len(closing.held) for closing in self._chosen(pattern))

    def hold(self, pattern: str = "", *, after: int = 0) -> None:
        """Close for the pages whose path and query match, beyond the next `after` requests for such pages."""
        try:
            compiled = re.compile(pattern)
        except re.error as exc:
            raise ValueError(f"pattern: {pattern!r}: {exc}") from exc
        closed = self._closed.get(pattern)
        self._closed[pattern] = _Closing(compiled, after, closed.held if closed is not None else set())

    def release(self, pattern: str | None = None) -> int:
        """Open for one pattern or for all: what is held for it goes on, and nothing more is held. How many went on."""
        released = 0
        for closing in self._chosen(pattern):
            del self._closed[closing.pattern.pattern]
            for waiting in closing.held:
                if not waiting.done():
                    waiting.set_result(None)
                    released += 1
        return released

    def admit(self, target: str) -> asyncio.Future[None] | None:
        """None for a request that passes; otherwise what `wait` has to be called with."""
        if not self._closed or target == _NEVER_HELD or target.startswith(PREFIX):
            return None
        closing = next((one for one in self._closed.values() if one.pattern.search(target) is not None), None)
        if closing is None:
            return None
        if closing.passes_left > 0:
            closing.passes_left -= 1
            return None
        waiting = asyncio.get_running_loop().create_future()
        closing.held.add(waiting)
        self._changed.set()
        return waiting

    async def wait(self, waiting: asyncio.Future[None]) -> None:
        """Until the request is released; one whose client leaves meanwhile is not held any more."""
        try:
            await waiting
        finally:
            self.forget(waiting)

    def forget(self, waiting: asyncio.Future[None]) -> None:
        """The request is held no longer, however it ended."""
        for closing in self._closed.values():
            closing.held.discard(waiting)
        self._changed.set()

    async def wait_held(self, count: int, pattern: str | None = None) -> None:
        """Until at least so many requests are held at the same time."""
        while self.held(pattern) < count:
            self._changed.clear()
            await self._changed.wait()

    def _chosen(self, pattern: str | None) -> list[_Closing]:
        if pattern is None:
            return list(self._closed.values())
        return [self._closed[pattern]] if pattern in self._closed else []


@dataclass(slots=True)
class _Closing:
    pattern: re.Pattern[str]
    passes_left: int
    held: set[asyncio.Future[None]]


def page_delay_s(asked_s: float) -> float:
    """What every page takes: as the environment says, else as it was asked for."""
    given = os.environ.get(DELAY_VARIABLE, "")
    if not given:
        return asked_s
    try:
        delay_s = float(given)
    except ValueError:
        delay_s = -1.0
    if not 0 <= delay_s <= 3_600:
        raise ValueError(f"{DELAY_VARIABLE}: {given!r} is not a number of seconds between 0 and 3,600")
    return delay_s
