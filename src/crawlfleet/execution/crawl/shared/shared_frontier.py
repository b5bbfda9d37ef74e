"""The frontier of one member of a crawl over many nodes: the URLs it leased, and the URLs it found on the way.

Its own links wait here; the URLs they lead to are not visited from here but sent with the next report, and every member
gets its part of them. Sending a URL early does no harm and sending it twice costs nothing, so that found URLs need not
be kept per URL batch. Figures and items are kept so: they count with their batch or not at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

from crawlfleet.execution.crawl.engine.collected_items import Gathered
from crawlfleet.execution.crawl.frontier.frontier import Ending, Frontier, Link, Refusal, url_digest
from crawlfleet.execution.crawl.parse.extract import field_counts
from crawlfleet.execution.crawl.parse.extract.extraction_plan import ExtractionPlan
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.shared.shared_crawl_seeds import link_of, url_of
from crawlfleet.model.crawl import CrawlUrl
from crawlfleet.wire.crawl import ReportBody

REMEMBERED = 200_000
"""Limit on URLs that a member remembers to have reported; the store knows all of them."""
_TAKEN = -1


class Chunk:
    """A URL batch: URLs that were leased together."""

    def __init__(self, number: int, urls: int) -> None:
        self.number = number
        self.open = urls
        self.items: list[Mapping[str, Any]] = []
        """Items of the batch, with the page notes among them."""
        self.again: list[CrawlUrl] = []
        self._changes: Counter[str] = Counter()
        self._notes = 0
        self._ends: Counter[Ending] = Counter()
        self._bytes = 0

    def end(self, link: Link, how: Ending, size: int) -> None:
        self.open -= 1
        if not link.is_sitemap:
            self._ends[how] += 1
            self._bytes += size

    def note(self, note: Mapping[str, Any]) -> None:
        """Add a page note, for the next crawl of the site."""
        self.items.append(note)
        self._notes += 1
        self._changes[note.get("change", "")] += 1

    def report(self, found: list[CrawlUrl]) -> ReportBody:
        ends, changes = self._ends, self._changes
        return ReportBody(
            self.number,
            ends["read"],
            ends["failed"],
            ends["skipped"],
            ends["moved"],
            len(self.items) - self._notes,
            self._bytes,
            found,
            self.again,
            changes["new"],
            changes["changed"],
            changes["unchanged"],
            changes["gone"],
        )


class SharedFrontier(Frontier):
    def __init__(self, most: int = REMEMBERED) -> None:
        super().__init__(most)
        self.is_open = self.is_shared = True
        self._chunks: dict[int, Chunk] = {}
        self._over: deque[Chunk] = deque()
        self._is_over = asyncio.Event()
        self._found: list[CrawlUrl] = []

    @property
    def held(self) -> list[int]:
        """Numbers of the URL batches that are not reported yet."""
        return [*(chunk.number for chunk in self._over), *self._chunks]

    def chunk(self, number: int) -> Chunk:
        return self._chunks[number]

    def load(self, number: int, urls: Iterable[CrawlUrl]) -> None:
        leased = list(urls)
        self._chunks[number] = Chunk(number, len(leased))
        for one in leased:
            link = link_of(one)
            link.batch_number = number
            self._depth_by_digest[one.key] = _TAKEN
            self.put_back(link)

    def end_closing(self, chunk: Chunk) -> None:
        """Queue a URL batch without pages for its report."""
        self._over.append(chunk)
        self._is_over.set()

    def take_over(self) -> Chunk | None:
        """Return a URL batch of which every URL was visited, to be reported."""
        return self._over.popleft() if self._over else None

    def take_found(self) -> list[CrawlUrl]:
        found, self._found = self._found, []
        return found

    async def until_over(self, within_s: float | None = None) -> None:
        """Wait until there is a URL batch to report, at most `within_s` seconds."""
        if self._over:
            return
        self._is_over.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._is_over.wait()
        except TimeoutError:
            pass

    def add_url(
        self, url: str, depth: int, *, is_start: bool = False, is_named: bool = False, refusal: Refusal | None = None
    ) -> bool:
        self._forget_some()
        key = url_digest(url)
        at = self._depth_by_digest.get(key)
        if at is None:
            return super().add_url(url, depth, is_start=is_start, is_named=is_named, refusal=refusal)
        if depth < at:
            self._depth_by_digest[key] = depth
            self._found.append(CrawlUrl(url, depth))
        return False

    def claim_url(self, url: str) -> bool:
        self._forget_some()
        return super().claim_url(url)

    def note_ending(self, link: Link, how: Ending, size: int) -> None:
        chunk = self._chunks[link.batch_number]
        chunk.end(link, how, size)
        if not chunk.open:
            self._over.append(self._chunks.pop(link.batch_number))
            self._is_over.set()

    def _queue_link(self, one: str | Link, url: str, rank: int) -> None:
        if isinstance(one, Link) and one.batch_number:
            super()._queue_link(one, url, rank)
        else:
            self._found.append(url_of(one) if isinstance(one, Link) else CrawlUrl(url, rank - 1))

    def _forget_some(self) -> None:
        """Forget all known URLs at the limit: the member then reports some URLs again, and the store ignores them."""
        if len(self._depth_by_digest) >= self._max_urls:
            self._depth_by_digest.clear()


class ChunkItems(Gathered):
    """Items per URL batch, held until their batch is reported.

    They are made page by page: the items of a page must not depend on which other pages the same member has seen.
    """

    def __init__(self, frontier: SharedFrontier, plan: ExtractionPlan) -> None:
        super().__init__(_nowhere, plan)
        self._frontier = frontier

    async def add(self, url: str, status: int, facts: PageFacts, chunk: int = 0) -> None:
        field_counts.add_counts(self.counts, facts.counts)
        items = self._frontier.chunk(chunk).items
        before = len(items)
        items += [found.item for found in self._read_items(url, status, facts)]
        if facts.container is None and any(facts.lists.values()):
            items.append(self.listed(url, facts.lists))
        self.items += len(items) - before


async def _nowhere(_item: Mapping[str, Any]) -> None:
    raise AssertionError("items of a member go with their chunk")
