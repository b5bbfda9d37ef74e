"""What an execution fetches of its project's day: counted, and never more than it was granted.

Only executions of projects with daily quotas have a meter. It asks its agent for slices of the day (which a master
grants) before the last one is used up, so that a crawl rarely waits for one. One want is under way at a time; each
answer says all that was granted so far, so that an old one or a second one does no harm.

    pages   one for each request, taken before its turn, given back if it was never sent
    bytes   of bodies, taken before they are read: what is not granted is not read
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.daily_quota import FIRST, MOST, QUOTAS

PAGES, BYTES = QUOTAS
"""The quotas, which are also the names of what is counted."""
AHEAD_S = 5.0
"""A slice is for so long, at the pace since the last one."""
PATIENCE = 3
AGAIN_S = 1.0
"""While others hold something that may come back, it is asked for again so often, that far apart."""


class Refused(NamedTuple):
    """Nothing is left of one amount."""

    quota: str
    project: str
    message: str
    again_ms: int = 0
    is_held: bool = False


class OverQuota(Exception):
    """The day has nothing left."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.project = refused.project
        self.again_s = refused.again_ms / 1000
        """How long until there is some again; 0: the execution is not to wait for it."""


class MeterLink(Protocol):
    """The way to the agent."""

    def want(self, number: int, pages: int, size_bytes: int) -> None: ...


class _Amount:
    __slots__ = ("_asked_at", "_clock", "_used_then", "first", "granted", "is_over", "last", "most", "used")

    def __init__(self, first: int, most: int, clock: Callable[[], float]) -> None:
        self.first, self.most = first, most
        self.used = self.granted = 0
        self.last = 0
        """How much the last slice was."""
        self.is_over = False
        """Nothing was left when it was asked for last: not asked for ahead any more."""
        self._clock = clock
        self._asked_at, self._used_then = clock(), 0

    @property
    def left(self) -> int:
        return self.granted - self.used

    @property
    def is_low(self) -> bool:
        return not self.is_over and self.left <= self.last // 2

    def ask(self) -> int:
        """What to ask for: as much as was used lately."""
        now = self._clock()
        pace = (self.used - self._used_then) / max(now - self._asked_at, 0.1)
        self._asked_at, self._used_then = now, self.used
        return min(max(self.first, int(pace * AHEAD_S)), self.most)

    def take(self, total: int) -> None:
        if total > self.granted:
            self.last, self.granted, self.is_over = total - self.granted, total, False


class Meter:
    def __init__(self, link: MeterLink, clock: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._amounts = {
            name: _Amount(first, most, clock) for name, first, most in zip(QUOTAS, FIRST, MOST, strict=True)
        }
        self._number = self._answered = 0
        self._refused: dict[str, Refused] = {}
        """By the last answer."""
        self._heard = asyncio.Event()

    @property
    def used(self) -> tuple[int, int]:
        """Pages and bytes."""
        return self._amounts[PAGES].used, self._amounts[BYTES].used

    async def page(self) -> None:
        """Returns when one more request may be sent. Raises OverQuota."""
        pages = self._amounts[PAGES]
        while pages.left <= 0:
            await self._more(PAGES)
        pages.used += 1
        self._look_ahead()

    def unsent(self) -> None:
        """The last request did not leave after all."""
        self._amounts[PAGES].used -= 1

    async def room(self, most: int) -> int:
        """How many bytes may be read now, one at least. Raises OverQuota."""
        size = self._amounts[BYTES]
        while size.left <= 0:
            await self._more(BYTES)
        return min(size.left, most)

    def read(self, size: int) -> None:
        self._amounts[BYTES].used += size
        self._look_ahead()

    def take(self, number: int, pages: int, size_bytes: int, refused: Sequence[Refused]) -> None:
        """What the agent says: all that was granted so far."""
        self._amounts[PAGES].take(pages)
        self._amounts[BYTES].take(size_bytes)
        if number >= self._number > self._answered:
            self._answered = self._number
            self._refused = {one.quota: one for one in refused}
            for name in self._refused:
                self._amounts[name].is_over = True
        self._heard.set()
        self._heard = asyncio.Event()

    def _look_ahead(self) -> None:
        if self._answered == self._number and any(amount.is_low for amount in self._amounts.values()):
            self._ask()

    def _ask(self) -> None:
        self._number += 1
        asked = [amount.ask() if amount.is_low or amount.left <= 0 else 0 for amount in self._amounts.values()]
        self._link.want(self._number, *asked)

    async def _more(self, name: str) -> None:
        """Until there is some. Several wait for one answer, and some may find that the others have used it up."""
        amount = self._amounts[name]
        tries = 0
        while amount.left <= 0:
            if self._answered == self._number:
                self._ask()
            number = self._number
            while self._answered < number and amount.left <= 0:
                await self._heard.wait()
            refused = self._refused.get(name)
            if amount.left > 0 or refused is None or self._answered > number:
                continue
            tries += 1
            if not refused.is_held or tries > PATIENCE:
                raise OverQuota(refused)
            await asyncio.sleep(AGAIN_S)
