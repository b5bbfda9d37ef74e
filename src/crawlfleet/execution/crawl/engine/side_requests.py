"""Side requests of a crawl, besides its visits to pages: sitemaps, pages looked at outside of a visit, host probes.

They are paced like visits, and obey robots.txt where visits do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
from crawlfleet.execution.crawl.engine.host_outages import is_answered
from crawlfleet.execution.crawl.engine.pacing import HostPacing
from crawlfleet.execution.crawl.fetch.fetcher import PAGE_BYTES, Fetcher
from crawlfleet.execution.crawl.fetch.responses import is_page
from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.frontier.frontier import Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.frontier.sitemaps import FILE_BYTES, Sitemap
from crawlfleet.execution.crawl.frontier.urls import url_host
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
from crawlfleet.execution.page_failures import PageSkipped


class SideRequests:
    def __init__(
        self,
        *,
        fetcher: Fetcher,
        reader: PageParser,
        robots: Robots,
        respect_robots: bool,
        pacing: HostPacing,
        link_filter: LinkFilter,
        collected_items: CollectedItems,
        log: Callable[[str, str], None],
    ) -> None:
        self._fetcher = fetcher
        self._reader = reader
        self._robots = robots
        self._respect_robots = respect_robots
        self._pacing = pacing
        self._link_filter = link_filter
        self._collected_items = collected_items
        self._log = log

    async def fetch_page_facts(self, url: str) -> PageFacts:
        """Fetch and parse a page outside of its visit."""
        if self._respect_robots:
            await self._robots.check_allowed(url)
        await self._pacing.wait_turn(url_host(url))
        fetched = await self._fetcher.fetch_head(url, PAGE_BYTES, hops=0)
        if not is_page(fetched.content_type):
            raise PageSkipped(f"{url}: {fetched.content_type} is not read")
        return await self._reader.parse_page(fetched, container=self._collected_items.container, follow=True)

    async def read_sitemap(self, link: Link) -> int:
        """Add the entries of a sitemap, or at depth 0 the sitemaps that robots.txt names; returns 0 bytes of pages."""
        if link.depth == 0:
            self._link_filter.add_robots_sitemaps(link, await self._robots.named_sitemaps(link.url))
            return 0
        if self._respect_robots and not self._link_filter.is_named_sitemap(link):
            await self._robots.check_allowed(link.url)
        await self._pacing.wait_turn(url_host(link.url))
        fetched = await self._fetcher.fetch_head(link.url, FILE_BYTES)
        sitemap = Sitemap(fetched.body, fetched.url)
        for entries in sitemap.parse_batches():
            self._link_filter.add_sitemap_entries(link, entries)
            await asyncio.sleep(0)
        if sitemap.problem is not None:
            self._link_filter.note_sitemap_failure(link, sitemap.problem)
        self._log(f"sitemap {link.url}: {sitemap.entry_count:,} entries", "info")
        return 0

    async def probe_host(self, url: str) -> bool:
        """Return whether the host answers a request, whatever the status."""
        await self._pacing.wait_turn(url_host(url))
        return await is_answered(self._fetcher, url)
