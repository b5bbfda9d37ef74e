"""What a crawl has found so far: every record streamed as an item, the first of them kept for the result itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from crawlfleet.execution.crawl.page import PageFacts

INLINE_RECORDS = 200
INLINE_BYTES = 48 << 10
HELD_BYTES = 1 << 20
ITEM_BYTES = 500 << 10
"""Half of what an item may have."""
PAGES = "pages"

Emit = Callable[[Mapping[str, Any]], Awaitable[None]]


class Gathered:
    """The data of one crawl.

    Pages on which no container shows are held back for a while: on a shop's front page the selectors may find a stray
    title, and once some page shows the container those strays are no data.
    """

    def __init__(self, emit: Emit, *, has_selectors: bool) -> None:
        self._emit = emit
        self._has_selectors = has_selectors
        self._room = INLINE_BYTES
        self._kept = 0
        self._held: deque[tuple[str, dict[str, list[str]]]] = deque()
        self._held_bytes = 0
        self.container: str | None = None
        self.items = 0
        self.is_truncated = False
        self.data: dict[str, list[Any]] = {}

    async def add(self, url: str, status: int, facts: PageFacts, chunk: int = 0) -> None:
        """`chunk`: what its page was leased with."""
        if not self._has_selectors:
            await self._record(PAGES, {"url": url, "title": facts.title, "status": status}, url)
        elif facts.container is not None:
            self._settle(facts.container)
            for record in facts.records:
                await self._record(f"{facts.container}s", record, url)
        elif self.container is None and any(facts.lists.values()):
            self._held.append((url, facts.lists))
            self._held_bytes += len(msgspec.json.encode(facts.lists))
            if self._held_bytes > HELD_BYTES:
                await self._release()

    async def finish(self) -> None:
        await self._release()

    @staticmethod
    def listed(url: str, lists: dict[str, list[str]]) -> dict[str, Any]:
        """A page on which no container shows, as one item."""
        item: dict[str, Any] = {"_url": url} | lists
        if len(msgspec.json.encode(item)) > ITEM_BYTES:
            item = {"_url": url, "_truncated": True} | {name: values[:20] for name, values in lists.items()}
        return item

    def _settle(self, container: str) -> None:
        if self.container is None:
            self.container = container
            self._held.clear()
            self._held_bytes = 0

    async def _release(self) -> None:
        while self._held:
            url, lists = self._held.popleft()
            await self._emit(self.listed(url, lists))
            self.items += 1
            for name, values in lists.items():
                for value in values:
                    self._keep(name, value)
        self._held_bytes = 0

    async def _record(self, key: str, record: dict[str, Any], url: str) -> None:
        await self._emit({**record, "_url": url})
        self.items += 1
        self._keep(key, record)

    def _keep(self, key: str, value: Any) -> None:
        size = len(msgspec.json.encode(value)) + 1
        if self._kept >= INLINE_RECORDS or size > self._room:
            self.is_truncated = True
            return
        self._kept += 1
        self._room -= size
        self.data.setdefault(key, []).append(value)
