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

from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
from crawlfleet.execution.crawl.frontier.frontier import Ending, Frontier, Link, Refusal, url_digest
from crawlfleet.execution.crawl.parse.extract import field_counts
from crawlfleet.execution.crawl.parse.extract.extraction_plan import ExtractionPlan
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.shared.shared_crawl_seeds import crawl_url_from_link, link_from_crawl_url
from crawlfleet.model.crawl import CrawlUrl
from crawlfleet.wire.crawl import ReportBody

REMEMBERED = 200_000
"""Limit on URLs that a member remembers to have reported; the store knows all of them."""
_LEASED = -1


class UrlBatch:
    """A URL batch: URLs that were leased together."""

    def __init__(self, number: int, urls: int) -> None:
        self.number = number
        self.open_count = urls
        self.items: list[Mapping[str, Any]] = []
        """Items of the batch, with the page notes among them."""
        self.retried_urls: list[CrawlUrl] = []
        self._changes: Counter[str] = Counter()
        self._notes = 0
        self._endings: Counter[Ending] = Counter()
        self._bytes = 0

    def count_ending(self, link: Link, ending: Ending, size: int) -> None:
        self.open_count -= 1
        if not link.is_sitemap:
            self._endings[ending] += 1
            self._bytes += size

    def add_note(self, note: Mapping[str, Any]) -> None:
        """Add a page note, for the next crawl of the site."""
        self.items.append(note)
        self._notes += 1
        self._changes[note.get("change", "")] += 1

    def make_report(self, found_urls: list[CrawlUrl]) -> ReportBody:
        endings, changes = self._endings, self._changes
        return ReportBody(
            self.number,
            endings["read"],
            endings["failed"],
            endings["skipped"],
            endings["moved"],
            len(self.items) - self._notes,
            self._bytes,
            found_urls,
            self.retried_urls,
            changes["new"],
            changes["changed"],
            changes["unchanged"],
            changes["gone"],
        )


class SharedFrontier(Frontier):
    def __init__(self, max_urls: int = REMEMBERED) -> None:
        super().__init__(max_urls)
        self.is_open = self.is_shared = True
        self._batches: dict[int, UrlBatch] = {}
        self._finished: deque[UrlBatch] = deque()
        self._has_finished = asyncio.Event()
        self._found_urls: list[CrawlUrl] = []

    @property
    def held_numbers(self) -> list[int]:
        """Numbers of the URL batches that are not reported yet."""
        return [*(batch.number for batch in self._finished), *self._batches]

    def get_batch(self, number: int) -> UrlBatch:
        return self._batches[number]

    def load_batch(self, number: int, urls: Iterable[CrawlUrl]) -> None:
        leased = list(urls)
        self._batches[number] = UrlBatch(number, len(leased))
        for crawl_url in leased:
            link = link_from_crawl_url(crawl_url)
            link.batch_number = number
            self._depth_by_digest[crawl_url.key] = _LEASED
            self.put_back(link)

    def end_closing(self, batch: UrlBatch) -> None:
        """Queue a URL batch without pages for its report."""
        self._finished.append(batch)
        self._has_finished.set()

    def pop_finished(self) -> UrlBatch | None:
        """Return a URL batch of which every URL was visited, to be reported."""
        return self._finished.popleft() if self._finished else None

    def pop_found_urls(self) -> list[CrawlUrl]:
        found_urls, self._found_urls = self._found_urls, []
        return found_urls

    async def wait_for_finished(self, within_s: float | None = None) -> None:
        """Wait until there is a URL batch to report, at most `within_s` seconds."""
        if self._finished:
            return
        self._has_finished.clear()
        try:
            async with asyncio.timeout(within_s):
                await self._has_finished.wait()
        except TimeoutError:
            pass

    def add_url(
        self, url: str, depth: int, *, is_start: bool = False, is_named: bool = False, refusal: Refusal | None = None
    ) -> bool:
        self._forget_some()
        key = url_digest(url)
        known_depth = self._depth_by_digest.get(key)
        if known_depth is None:
            return super().add_url(url, depth, is_start=is_start, is_named=is_named, refusal=refusal)
        if depth < known_depth:
            self._depth_by_digest[key] = depth
            self._found_urls.append(CrawlUrl(url, depth))
        return False

    def claim_url(self, url: str) -> bool:
        self._forget_some()
        return super().claim_url(url)

    def note_ending(self, link: Link, ending: Ending, size: int) -> None:
        batch = self._batches[link.batch_number]
        batch.count_ending(link, ending, size)
        if not batch.open_count:
            self._finished.append(self._batches.pop(link.batch_number))
            self._has_finished.set()

    def _queue_link(self, one: str | Link, url: str, rank: int) -> None:
        if isinstance(one, Link) and one.batch_number:
            super()._queue_link(one, url, rank)
        else:
            self._found_urls.append(crawl_url_from_link(one) if isinstance(one, Link) else CrawlUrl(url, rank - 1))

    def _forget_some(self) -> None:
        """Forget all known URLs at the limit: the member then reports some URLs again, and the store ignores them."""
        if len(self._depth_by_digest) >= self._max_urls:
            self._depth_by_digest.clear()


class BatchItems(CollectedItems):
    """Items per URL batch, held until their batch is reported.

    They are made page by page: the items of a page must not depend on which other pages the same member has seen.
    """

    def __init__(self, frontier: SharedFrontier, plan: ExtractionPlan) -> None:
        super().__init__(_refuse_item, plan)
        self._frontier = frontier

    async def add_page(self, url: str, status: int, facts: PageFacts, batch_number: int = 0) -> None:
        field_counts.add_counts(self.field_counts, facts.counts)
        items = self._frontier.get_batch(batch_number).items
        before = len(items)
        items += [fitted.item for fitted in self._read_items(url, status, facts)]
        if facts.container is None and any(facts.lists.values()):
            items.append(self.make_page_item(url, facts.lists))
        self.item_count += len(items) - before


async def _refuse_item(_item: Mapping[str, Any]) -> None:
    raise AssertionError("items of a member go with their chunk")
