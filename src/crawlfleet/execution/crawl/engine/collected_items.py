"""Collected items of a crawl: every record is streamed as an item, and the first are kept for the inline result."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from crawlfleet.execution.crawl.parse.extract import field_counts
from crawlfleet.execution.crawl.parse.extract.extraction_plan import ExtractionPlan
from crawlfleet.execution.crawl.parse.extract.field_counts import FieldCounts
from crawlfleet.execution.crawl.parse.page_parser import PageFacts

INLINE_RECORDS = 200
INLINE_BYTES = 48 << 10
HELD_BYTES = 1 << 20
ITEM_BYTES = 500 << 10
"""Limit on the size of a record: half of what an item may have."""
PAGES = "pages"
_NOTHING: Mapping[str, Any] = {}

Emit = Callable[[Mapping[str, Any]], Awaitable[None]]


class Found(NamedTuple):
    """A record, cut where necessary so that it is no larger than an item may be."""

    key: str
    """Key under which the record stands in the result."""
    record: dict[str, Any]
    size: int
    item: Mapping[str, Any]


class Gathered:
    """Collects the data of one crawl.

    Pages on which no container is recognised are held back for a while: on a shop's front page the selectors may match
    a stray title, and once some page shows the container those strays are no data.
    """

    def __init__(self, emit: Emit, plan: ExtractionPlan) -> None:
        self._emit = emit
        self._plan = plan
        self._room = INLINE_BYTES
        self._kept = 0
        self._held: deque[tuple[str, dict[str, list[str]]]] = deque()
        self._held_bytes = 0
        self.container: str | None = None
        self.items = 0
        self.is_truncated = False
        self.data: dict[str, list[Any]] = {}
        self.counts: FieldCounts = {}

    async def add(self, url: str, status: int, facts: PageFacts, chunk: int = 0) -> None:
        """Add the records of one page; `chunk` is the number of the URL batch that its page was leased with."""
        field_counts.add_counts(self.counts, facts.counts)
        if facts.container is not None:
            self._settle(facts.container)
        for found in self._read_items(url, status, facts):
            await self._emit(found.item)
            self.items += 1
            self._keep(found.key, found.record, found.size)
        if self.container is None and any(facts.lists.values()):
            self._held.append((url, facts.lists))
            self._held_bytes += len(msgspec.json.encode(facts.lists))
            if self._held_bytes > HELD_BYTES:
                await self._release()

    async def finish(self) -> None:
        await self._release()

    @staticmethod
    def listed(url: str, lists: dict[str, list[str]]) -> dict[str, Any]:
        """Return a page without a recognised container as one item."""
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

    def _read_items(self, url: str, status: int, facts: PageFacts) -> Iterator[Found]:
        """Yield the records of a page, except for the lists of a page without a recognised container."""
        if self._plan.is_only_page or self._plan.page:
            yield _fitted(PAGES, {"url": url, "title": facts.title, "status": status, **facts.page}, url)
        for name, records in facts.data.items():
            for record in records:
                yield _fitted(name, record, url, {"_name": name})
        if facts.container is not None:
            for record in facts.records:
                yield _fitted(f"{facts.container}s", record, url)

    def _keep(self, key: str, value: Any, size: int | None = None) -> None:
        size = (len(msgspec.json.encode(value)) if size is None else size) + 1
        if self._kept >= INLINE_RECORDS or size > self._room:
            self.is_truncated = True
            return
        self._kept += 1
        self._room -= size
        self.data.setdefault(key, []).append(value)


def _fitted(key: str, record: dict[str, Any], url: str, more: Mapping[str, Any] = _NOTHING) -> Found:
    size = len(msgspec.json.encode(record))
    if size > ITEM_BYTES:
        record = _cut(record)
        size = len(msgspec.json.encode(record))
    return Found(key, record, size, {**record, **more, "_url": url})


def _cut(record: dict[str, Any]) -> dict[str, Any]:
    """Keep as many values of a record as fit, the smallest first."""
    sizes = {name: len(msgspec.json.encode(value)) + len(name) + 8 for name, value in record.items()}
    room, kept = ITEM_BYTES, set()
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if room < 0:
            break
        kept.add(name)
    return {name: value if name in kept else None for name, value in record.items()} | {"_truncated": True}
