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


class FittedRecord(NamedTuple):
    """A record, cut where necessary so that it is no larger than an item may be."""

    key: str
    """Key under which the record stands in the result."""
    record: dict[str, Any]
    size: int
    item: Mapping[str, Any]


class CollectedItems:
    """Collects the data of one crawl.

    Pages on which no container is recognised are held back for a while: on a shop's front page the selectors may match
    a stray title, and once some page shows the container those strays are no data.
    """

    def __init__(self, emit: Emit, plan: ExtractionPlan) -> None:
        self._emit = emit
        self._plan = plan
        self._inline_bytes_left = INLINE_BYTES
        self._inline_count = 0
        self._held_pages: deque[tuple[str, dict[str, list[str]]]] = deque()
        self._held_bytes = 0
        self.container: str | None = None
        self.item_count = 0
        self.is_truncated = False
        self.data: dict[str, list[Any]] = {}
        self.field_counts: FieldCounts = {}

    async def add_page(self, url: str, status: int, facts: PageFacts, batch_number: int = 0) -> None:
        """Add the records of one page; `chunk` is the number of the URL batch that its page was leased with."""
        field_counts.add_counts(self.field_counts, facts.counts)
        if facts.container is not None:
            self._set_container(facts.container)
        for fitted in self._read_items(url, status, facts):
            await self._emit(fitted.item)
            self.item_count += 1
            self._keep_inline(fitted.key, fitted.record, fitted.size)
        if self.container is None and any(facts.lists.values()):
            self._held_pages.append((url, facts.lists))
            self._held_bytes += len(msgspec.json.encode(facts.lists))
            if self._held_bytes > HELD_BYTES:
                await self._emit_held_pages()

    async def finish(self) -> None:
        await self._emit_held_pages()

    @staticmethod
    def make_page_item(url: str, lists: dict[str, list[str]]) -> dict[str, Any]:
        """Return a page without a recognised container as one item."""
        item: dict[str, Any] = {"_url": url} | lists
        if len(msgspec.json.encode(item)) > ITEM_BYTES:
            item = {"_url": url, "_truncated": True} | {name: values[:20] for name, values in lists.items()}
        return item

    def _set_container(self, container: str) -> None:
        if self.container is None:
            self.container = container
            self._held_pages.clear()
            self._held_bytes = 0

    async def _emit_held_pages(self) -> None:
        while self._held_pages:
            url, lists = self._held_pages.popleft()
            await self._emit(self.make_page_item(url, lists))
            self.item_count += 1
            for name, values in lists.items():
                for value in values:
                    self._keep_inline(name, value)
        self._held_bytes = 0

    def _read_items(self, url: str, status: int, facts: PageFacts) -> Iterator[FittedRecord]:
        """Yield the records of a page, except for the lists of a page without a recognised container."""
        if self._plan.is_only_page or self._plan.page:
            yield _fit_record(PAGES, {"url": url, "title": facts.title, "status": status, **facts.page}, url)
        for name, records in facts.data.items():
            for record in records:
                yield _fit_record(name, record, url, {"_name": name})
        if facts.container is not None:
            for record in facts.records:
                yield _fit_record(f"{facts.container}s", record, url)

    def _keep_inline(self, key: str, value: Any, size: int | None = None) -> None:
        size = (len(msgspec.json.encode(value)) if size is None else size) + 1
        if self._inline_count >= INLINE_RECORDS or size > self._inline_bytes_left:
            self.is_truncated = True
            return
        self._inline_count += 1
        self._inline_bytes_left -= size
        self.data.setdefault(key, []).append(value)


def _fit_record(key: str, record: dict[str, Any], url: str, more: Mapping[str, Any] = _NOTHING) -> FittedRecord:
    size = len(msgspec.json.encode(record))
    if size > ITEM_BYTES:
        record = _truncate_record(record)
        size = len(msgspec.json.encode(record))
    return FittedRecord(key, record, size, {**record, **more, "_url": url})


def _truncate_record(record: dict[str, Any]) -> dict[str, Any]:
    """Keep as many values of a record as fit, the smallest first."""
    sizes = {name: len(msgspec.json.encode(value)) + len(name) + 8 for name, value in record.items()}
    bytes_left, kept_names = ITEM_BYTES, set()
    for name in sorted(sizes, key=sizes.__getitem__):
        bytes_left -= sizes[name]
        if bytes_left < 0:
            break
        kept_names.add(name)
    return {name: value if name in kept_names else None for name, value in record.items()} | {"_truncated": True}
