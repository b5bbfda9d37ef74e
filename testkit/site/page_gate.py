"""The page gate of the site: it holds responses back until they are released, so that a test can act half way.

`TEST_SITE_PAGE_DELAY_S` sets the delay of every page, whatever a caller asked for: a whole run of tests can be made
with a site that answers at once, or slowly.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass

PREFIX = "/-/"
"""Prefix of the paths of the control endpoints, which are no pages."""
DELAY_VARIABLE = "TEST_SITE_PAGE_DELAY_S"
_NEVER_HELD = "/robots.txt"


class PageGate:
    """A gate for requests, open at first. Closed for a pattern, it holds the requests for matching pages until opened.

    Neither `/robots.txt` nor the control endpoints under `/-/` are pages: a crawl gets as far as its pages, and a test
    can query the state. Only the thread of the site may use it.
    """

    def __init__(self) -> None:
        self._closed: dict[str, _Closing] = {}
        self._changed = asyncio.Event()

    def held(self, pattern: str | None = None) -> int:
        """Return how many requests are held now, for one pattern or for all."""
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
        """Open for one pattern or for all: held requests continue, and nothing more is held.

        Returns the number of requests that were released.
        """
        released = 0
        for closing in self._chosen(pattern):
            del self._closed[closing.pattern.pattern]
            for waiting in closing.held:
                if not waiting.done():
                    waiting.set_result(None)
                    released += 1
        return released

    def admit(self, target: str) -> asyncio.Future[None] | None:
        """Return None for a request that passes; otherwise the future that `wait` has to be called with."""
        if not self._closed or target == _NEVER_HELD or target.startswith(PREFIX):
            return None
        closing = next((closed for closed in self._closed.values() if closed.pattern.search(target) is not None), None)
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
        """Wait until the request is released; one whose client leaves meanwhile is no longer held."""
        try:
            await waiting
        finally:
            self.forget(waiting)

    def forget(self, waiting: asyncio.Future[None]) -> None:
        """Remove a request that is no longer held, however it ended."""
        for closing in self._closed.values():
            closing.held.discard(waiting)
        self._changed.set()

    async def wait_held(self, count: int, pattern: str | None = None) -> None:
        """Wait until at least `count` requests are held at the same time."""
        while self.held(pattern) < count:
            self._changed.clear()
            await self._changed.wait()

    def _chosen(self, pattern: str | None) -> list[_Closing]:
        if pattern is None:
            return list(self._closed.values())
        return [self._closed[pattern]] if pattern in self._closed else []


@dataclass(slots=True)
class _Closing:
    """A pattern for which the gate is closed."""

    pattern: re.Pattern[str]
    passes_left: int
    """Number of matching requests that still pass."""
    held: set[asyncio.Future[None]]


def page_delay_s(asked_s: float) -> float:
    """Return the delay of every page: from the environment, else as it was asked for."""
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
