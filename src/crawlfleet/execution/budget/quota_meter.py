"""The meter of a project's daily quota: counts what an execution fetches, never more than it was granted.

Only executions of projects with daily quotas have a meter. It requests slices of the quota from its agent (which a
master grants) before the last one is used up, so that a crawl rarely waits for one. One request is under way at a time;
each answer carries the total granted so far, so that an old or a repeated one does no harm.

    pages   one for each request, counted before its turn, given back if it was never sent
    bytes   of bodies, checked before they are read: what is not granted is not read
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.daily_quota import FIRST, MOST, QUOTAS

PAGES, BYTES = QUOTAS
"""The quotas, which are also the names of what is counted."""
SLICE_S = 5.0
"""Time that a slice should last, at the pace since the last one."""
MAX_RETRIES = 3
RETRY_S = 1.0
"""Number and interval of new requests while other executions hold unused slices that may come back."""


class QuotaRefusal(NamedTuple):
    """The refusal of a slice: nothing is left of one quota."""

    quota: str
    project: str
    message: str
    again_ms: int = 0
    is_held: bool = False


class OverQuota(Exception):
    """A daily quota is exhausted."""

    def __init__(self, refused: QuotaRefusal) -> None:
        super().__init__(refused.message)
        self.project = refused.project
        self.again_s = refused.again_ms / 1000
        """Time until the quota is available again; 0: the execution must not wait for it."""


class MeterLink(Protocol):
    """The link of the meter to the agent."""

    def request_slice(self, number: int, pages: int, size_bytes: int) -> None: ...


class _Amount:
    """The granted and used amount of one quota."""

    __slots__ = (
        "_clock",
        "_requested_at",
        "_used_at_request",
        "granted",
        "is_exhausted",
        "last_slice",
        "max_slice",
        "min_slice",
        "used",
    )

    def __init__(self, min_slice: int, max_slice: int, clock: Callable[[], float]) -> None:
        self.min_slice, self.max_slice = min_slice, max_slice
        self.used = self.granted = 0
        self.last_slice = 0
        """Size of the last slice."""
        self.is_exhausted = False
        """Whether the last request was refused: no further slices are requested ahead."""
        self._clock = clock
        self._requested_at, self._used_at_request = clock(), 0

    @property
    def remaining(self) -> int:
        return self.granted - self.used

    @property
    def is_low(self) -> bool:
        return not self.is_exhausted and self.remaining <= self.last_slice // 2

    def next_request(self) -> int:
        """Size of the next request, by the recent pace."""
        now = self._clock()
        pace = (self.used - self._used_at_request) / max(now - self._requested_at, 0.1)
        self._requested_at, self._used_at_request = now, self.used
        return min(max(self.min_slice, int(pace * SLICE_S)), self.max_slice)

    def apply_total(self, total: int) -> None:
        if total > self.granted:
            self.last_slice, self.granted, self.is_exhausted = total - self.granted, total, False


class QuotaMeter:
    """The meter of one execution: pages and bytes used, and slices requested."""

    def __init__(self, link: MeterLink, clock: Callable[[], float] = time.monotonic) -> None:
        self._link = link
        self._amounts = {
            name: _Amount(min_slice, max_slice, clock)
            for name, min_slice, max_slice in zip(QUOTAS, FIRST, MOST, strict=True)
        }
        self._number = self._answered_number = 0
        self._refusals: dict[str, QuotaRefusal] = {}
        """Refusals of the last answer, by quota."""
        self._slice_arrived = asyncio.Event()

    @property
    def used(self) -> tuple[int, int]:
        """Pages and bytes."""
        return self._amounts[PAGES].used, self._amounts[BYTES].used

    async def page(self) -> None:
        """Wait until one more request may be sent, and count it. Raises OverQuota."""
        pages = self._amounts[PAGES]
        while pages.remaining <= 0:
            await self._wait_for_slice(PAGES)
        pages.used += 1
        self._request_ahead()

    def unsent(self) -> None:
        """Give back the page of a request that was not sent after all."""
        self._amounts[PAGES].used -= 1

    async def room(self, limit: int) -> int:
        """Wait until bytes may be read; the number that may be read now, at least one. Raises OverQuota."""
        amount = self._amounts[BYTES]
        while amount.remaining <= 0:
            await self._wait_for_slice(BYTES)
        return min(amount.remaining, limit)

    def read(self, size: int) -> None:
        self._amounts[BYTES].used += size
        self._request_ahead()

    def apply_slice(self, number: int, pages: int, size_bytes: int, refused: Sequence[QuotaRefusal]) -> None:
        """Apply an answer of the agent: the total granted so far."""
        self._amounts[PAGES].apply_total(pages)
        self._amounts[BYTES].apply_total(size_bytes)
        if number >= self._number > self._answered_number:
            self._answered_number = self._number
            self._refusals = {refusal.quota: refusal for refusal in refused}
            for name in self._refusals:
                self._amounts[name].is_exhausted = True
        self._slice_arrived.set()
        self._slice_arrived = asyncio.Event()

    def _request_ahead(self) -> None:
        if self._answered_number == self._number and any(amount.is_low for amount in self._amounts.values()):
            self._request_slice()

    def _request_slice(self) -> None:
        self._number += 1
        requested = [
            amount.next_request() if amount.is_low or amount.remaining <= 0 else 0 for amount in self._amounts.values()
        ]
        self._link.request_slice(self._number, *requested)

    async def _wait_for_slice(self, name: str) -> None:
        """Wait for a slice. Several callers wait for one answer, and some may find it used up by the others."""
        amount = self._amounts[name]
        tries = 0
        while amount.remaining <= 0:
            if self._answered_number == self._number:
                self._request_slice()
            number = self._number
            while self._answered_number < number and amount.remaining <= 0:
                await self._slice_arrived.wait()
            refusal = self._refusals.get(name)
            if amount.remaining > 0 or refusal is None or self._answered_number > number:
                continue
            tries += 1
            if not refusal.is_held or tries > MAX_RETRIES:
                raise OverQuota(refusal)
            await asyncio.sleep(RETRY_S)
