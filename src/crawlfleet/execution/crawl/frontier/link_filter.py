"""The link filter decides which links, redirects and sitemap entries of a page a crawl follows.

It stands between the pages and the frontier, and is free of I/O: follow rules (whose pages, and which), traps (how many
of a kind) and the link cache (whether a link was seen before) are evaluated here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.frontier.follow_config import FollowConfig
from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link
from crawlfleet.execution.crawl.frontier.link_cache import LinkCache
from crawlfleet.execution.crawl.frontier.sitemaps import MAX_LEVELS, MAX_SITEMAPS, SitemapEntry
from crawlfleet.execution.crawl.frontier.traps import TrapGuards
from crawlfleet.execution.crawl.frontier.urls import PAGE_LINKS, canonical_url, url_host
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped

MAX_REDIRECTS = 10
"""Limit on redirects from page to page, one after the other."""
MAX_SITEMAP_NOTES = 5
TOO_MANY = "too many on a page"


class LinkFilter:
    def __init__(self, config: FollowConfig, frontier: Frontier, *, depth: int) -> None:
        self._config = config
        self._frontier = frontier
        self._depth = depth
        self._cache = LinkCache(config.normalise)
        self._trap_guards = TrapGuards(config.trap_limits) if config.trap_limits is not None else None
        self._sitemap_count = 0
        self._guessed_sitemaps: set[str] = set()
        self._problems: list[str] = []
        self._problem_count = 0

    def add_start_urls(self, starts: Iterable[str]) -> None:
        hosts = {}
        for url in starts:
            self._frontier.add_url(url, 0, is_start=True)
            hosts[url_host(url)] = url
        config = self._config
        first_page = config.pagination.first_page() if config.pagination is not None else None
        if first_page is not None:
            self._add_named_url(first_page, 0)
        for url in config.sitemaps:
            self._add_sitemap(url, 1)
        if config.finds_sitemaps:
            # Level 0 is the robots.txt; the sitemaps that it names are of level 1.
            for host, url in hosts.items():
                self._frontier.add_sitemap(f"{url.partition('://')[0]}://{host}/robots.txt", 0)

    @property
    def follows_links(self) -> bool:
        """Whether any links of pages are followed."""
        return self._depth > 0 or self._config.pagination is not None

    def add_earlier_pages(self, pages: Iterable[tuple[str, int]]) -> None:
        """Add the pages that an earlier crawl visited, each at the depth it had then."""
        for url, depth in pages:
            if depth <= self._depth:
                self._frontier.add_url(url, depth, refusal=self._refusal_check(depth))

    def add_page_links(self, link: Link, fetched: Fetched, facts: PageFacts) -> None:
        """Add the links of a page to the frontier."""
        links, pagination = facts.links, self._config.pagination
        if pagination is not None:
            for url in pagination.next_pages(link.url, facts, fetched.body):
                self._add_named_url(url, link.depth)
        if not self._depth or (self._config.obeys_nofollow and not links.may_follow):
            return
        if links.refresh is not None and (target := canonical_url(links.refresh, facts.base)) is not None:
            # A refresh is like a redirect, but its page is a page as well: whatever became of the target, the visit
            # goes on.
            self._add_redirect(link, target)
        depth = link.depth + 1
        if depth > self._depth:
            return
        hrefs = [*links.hrefs, *links.frames] if links.frames else links.hrefs
        if links.nofollow and self._config.obeys_nofollow:
            hrefs = [href for href in hrefs if href not in links.nofollow]
        if len(hrefs) > PAGE_LINKS or links.unread:
            hrefs = self._limit_hrefs(hrefs, links.unread)
        refusal = self._refusal_check(depth)
        for url in self._cache.new_urls(hrefs, facts.base, depth):
            self._frontier.add_url(url, depth, refusal=refusal)

    def _limit_hrefs(self, hrefs: list[str], unread: int) -> list[str]:
        # The index of a manual links to every section of a page: each page counts once.
        pages = list(dict.fromkeys(href.partition("#")[0] for href in hrefs))
        if left_out := unread + max(0, len(pages) - PAGE_LINKS):
            self._frontier.left_out[TOO_MANY] += left_out
        return pages[:PAGE_LINKS]

    def follow_redirect(self, link: Link, url: str, *, sets_cookie: bool = False) -> None:
        """Return if the redirect is to be followed at once; raise if it ends the visit.

        The target of a redirect is fetched as a page of its own, so that it is read once however many redirects lead to
        it. Only a redirect that sets a cookie, or leads back to where it came from, is followed at once: sites do this
        to recognise their visitors.
        """
        end = self._add_redirect(link, url, sets_cookie=sets_cookie)
        if end is not None:
            raise end

    def _add_redirect(
        self, link: Link, url: str, *, sets_cookie: bool = False
    ) -> PageFailed | PageSkipped | PageMoved | None:
        """Add the target of a redirect in place of its link.

        Returns what ends the visit of the link, or None if the redirect is followed at once.
        """
        target = self._config.normalise(url)
        if target == link.url or target in link.via:
            return None
        if len(link.via) >= MAX_REDIRECTS:
            message = f"{link.via[0]}: more than {MAX_REDIRECTS} redirects"
            return PageFailed("http", message, permanent=True, kind="redirects")
        rules = self._config.rules
        if not rules.scope.contains_url(target):
            if not link.is_start:
                return PageSkipped(f"{link.url}: redirects to another host, {url_host(target)}")
            # A start URL that moved (to www., to https) names the site that was meant.
            self._add_to_scope(target)
        if sets_cookie and not self._frontier.is_shared:
            return self._redirect_refusal(link, target)
        if self._frontier.is_known(target):
            # The target may wait in the frontier at a greater depth than this link has.
            self._frontier.add_url(target, link.depth)
            return PageKnown(f"{link.url}: redirects to {target}, which is known")
        if (refused := self._redirect_refusal(link, target)) is not None:
            return refused
        if not self._frontier.add_redirected(link, target):
            return PageSkipped(f"{link.url}: redirects to {target}, for which there is no room")
        return PageMoved(target)

    def _redirect_refusal(self, link: Link, target: str) -> PageSkipped | None:
        if not link.is_start and (reason := self._refusal_check(link.depth, is_named=True)(target)) is not None:
            return PageSkipped(f"{link.url}: redirects to {target}, which is not followed ({reason})")
        return None

    def normalise_url(self, url: str) -> str:
        """Return the normalised form under which the frontier knows a canonical URL."""
        return self._config.normalise(url)

    def is_followed(self, url: str) -> bool:
        """Return whether the rules let a page pass, at whatever depth."""
        return self._config.rules.refusal_reason(url, 0) is None

    def may_visit(self, link: Link, target: str) -> bool:
        """Return whether a page may be visited in the place of a link."""
        return self._frontier.is_known(target) or self._refusal_check(link.depth)(target) is None

    def widen_scope(self, urls: Iterable[str]) -> None:
        """Widen the scope by URLs that other members added: where a start URL led them, this member follows as well."""
        for url in urls:
            if not self._config.rules.scope.contains_url(url):
                self._add_to_scope(url)

    def claim_final_page(self, link: Link, url: str) -> None:
        """Note the page to which redirects led that were followed at once.

        Raises PageKnown if that page is visited on its own.
        """
        target = self._config.normalise(url)
        if target == link.url or target in link.via:
            return
        if self._frontier.is_known(target):
            raise PageKnown(f"{link.url}: redirects to {target}, which is known")
        self._frontier.claim_url(target)

    def add_sitemap_entries(self, link: Link, entries: Iterable[SitemapEntry]) -> None:
        """Add the entries of a sitemap: pages at the depth of start URLs, and further sitemaps."""
        refusal = self._refusal_check(0)
        normalise = self._config.normalise
        for entry in entries:
            if not entry.is_sitemap:
                self._frontier.add_url(normalise(entry.url), 0, refusal=refusal)
                for _, url in entry.alternates:
                    self._frontier.add_url(normalise(url), 0, refusal=refusal)
            elif link.depth >= MAX_LEVELS:
                self.note_sitemap_failure(link, f"{entry.url} is more than {MAX_LEVELS} levels deep")
            elif url_host(entry.url) == url_host(link.url) or self._config.rules.scope.contains_url(entry.url):
                self._add_sitemap(entry.url, link.depth + 1)

    def add_robots_sitemaps(self, link: Link, urls: list[str]) -> None:
        """Add the sitemaps that a robots.txt names, or /sitemap.xml where it names none."""
        if not urls:
            guessed_url = link.url.removesuffix("/robots.txt") + "/sitemap.xml"
            self._guessed_sitemaps.add(guessed_url)
            urls = [guessed_url]
        for url in urls:
            self._add_sitemap(url, 1)

    def is_named_sitemap(self, link: Link) -> bool:
        """Return whether the site's robots.txt, or the task, names exactly this sitemap."""
        return link.depth == 1 and link.url not in self._guessed_sitemaps

    def note_sitemap_failure(self, link: Link, reason: str) -> None:
        if link.url in self._guessed_sitemaps:
            return
        self._problem_count += 1
        if len(self._problems) < MAX_SITEMAP_NOTES:
            self._problems.append(f"sitemap {link.url}: {reason}")

    def describe_omissions(self) -> list[str]:
        """Return sentences for people to read about what was left out, and why."""
        more = self._problem_count - len(self._problems)
        others = [f"and {more} more problems with sitemaps"] if more else []
        return [
            *(self._trap_guards.describe_refusals() if self._trap_guards is not None else ()),
            *self._problems,
            *others,
        ]

    def _add_to_scope(self, url: str) -> None:
        self._config.rules.scope.add_site(url)
        self._cache.clear()
        self._frontier.forget_refusals()

    def _add_named_url(self, url: str, depth: int) -> None:
        self._frontier.add_url(url, depth, is_named=True, refusal=self._refusal_check(depth, is_named=True))

    def _add_sitemap(self, url: str, level: int) -> None:
        if self._sitemap_count < MAX_SITEMAPS and self._frontier.add_sitemap(url, level):
            self._sitemap_count += 1

    def _refusal_check(self, depth: int, *, is_named: bool = False) -> Callable[[str], str | None]:
        rules, trap_guards = self._config.rules, self._trap_guards

        def check_url(url: str) -> str | None:
            reason = rules.refusal_reason(url, depth, is_named=is_named)
            if reason is None and trap_guards is not None and (guard := trap_guards.refusing_guard(url)) is not None:
                return f"trap: {guard}"
            return reason

        return check_url
