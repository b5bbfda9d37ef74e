"""Canonical links: a page that names another one by `rel=canonical` is replaced by that page.

Sites make mistakes in this. They name pages that do not exist, that redirect back, or that name the first one in turn.
So a named page is looked at before the link is trusted, unless it was read already, and so are the pages that it names
in turn. Of a circle the page whose URL sorts first is kept, so that every node decides the same whichever page of it is
read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link, url_digest
from crawlfleet.execution.crawl.frontier.link_filter import MAX_REDIRECTS, LinkFilter
from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped

OTHER_CANONICAL = "names another page as canonical"
MAX_CANONICAL_URLS = 100_000

FetchPage = Callable[[str], Awaitable[PageFacts]]
"""Function that fetches and parses a page without storing it.

Raises PageFailed or PageSkipped for a URL that is no page, redirects included.
"""


class CanonicalLinks:
    def __init__(self, link_filter: LinkFilter, frontier: Frontier, fetch_page: FetchPage) -> None:
        self._link_filter = link_filter
        self._frontier = frontier
        self._fetch_page = fetch_page
        self._canonical_urls: dict[bytes, str | None] = {}
        """Canonical URL that each page names, per digest of the pages that were read; None if it names no other."""

    async def redirect_to_canonical(self, link: Link, url: str, facts: PageFacts) -> PageMoved | PageKnown | None:
        """Return the exception that ends the visit of a link, if another page is visited in its place; else None."""
        own_url = self._link_filter.normalise_url(url)
        target = self._note_canonical(own_url, facts)
        if target is None or target == link.url or target in link.via or len(link.via) >= MAX_REDIRECTS:
            return None
        if not self._link_filter.may_visit(link, target) or not await self._is_trustworthy(own_url, target):
            return None
        is_known = self._frontier.is_known(target)
        if not is_known and not self._frontier.add_redirected(link, target):
            return None
        self._frontier.left_out[OTHER_CANONICAL] += 1
        if not is_known:
            return PageMoved(target)
        # The target may wait in the frontier at a greater depth than this link has.
        self._frontier.add_url(target, link.depth)
        return PageKnown(f"{link.url}: names {target} as canonical, which is known")

    def describe_replacements(self) -> list[str]:
        """Return a sentence about replaced pages for people to read."""
        count = self._frontier.left_out[OTHER_CANONICAL]
        return [f"{count} pages were left for those that they name as canonical"] if count else []

    async def _is_trustworthy(self, own_url: str, target: str) -> bool:
        """Return whether the canonical links lead to a page that names no other, or to the first URL of a circle."""
        chain = [own_url]
        next_url: str | None = target
        while next_url is not None and next_url not in chain:
            chain.append(next_url)
            if len(chain) > MAX_REDIRECTS:
                return False
            try:
                next_url = await self._find_canonical(next_url)
            except (PageFailed, PageSkipped):
                # A page that cannot be read does not replace another.
                return False
        return next_url is None or min(chain[chain.index(next_url) :]) != own_url

    async def _find_canonical(self, url: str) -> str | None:
        key = url_digest(url)
        if key in self._canonical_urls:
            return self._canonical_urls[key]
        return self._note_canonical(url, await self._fetch_page(url))

    def _note_canonical(self, own_url: str, facts: PageFacts) -> str | None:
        href = facts.links.canonical
        target = None if href is None else canonical_url(href, facts.base)
        if target is not None:
            target = self._link_filter.normalise_url(target)
            # A page that the rules do not follow, such as one of another site, is not accepted as canonical.
            target = None if target == own_url or not self._link_filter.is_followed(target) else target
        if len(self._canonical_urls) >= MAX_CANONICAL_URLS:
            self._canonical_urls.clear()
        self._canonical_urls[url_digest(own_url)] = target
        return target
