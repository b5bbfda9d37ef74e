"""The link filter decides which links, redirects and sitemap entries of a page a crawl follows.

It stands between the pages and the frontier, and is free of I/O: follow rules (whose pages, and which), traps (how many
of a kind) and the link cache (whether a link was seen before) are evaluated here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.frontier.follow_config import Following
from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link
from crawlfleet.execution.crawl.frontier.link_cache import LinkMemory
from crawlfleet.execution.crawl.frontier.sitemaps import FILES, LEVELS, Entry
from crawlfleet.execution.crawl.frontier.traps import Traps
from crawlfleet.execution.crawl.frontier.urls import PAGE_LINKS, canonical, site
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped

MAX_MOVES = 10
"""Limit on redirects from page to page, one after the other."""
NOTED_SITEMAPS = 5
TOO_MANY = "too many on a page"


class Outlook:
    def __init__(self, following: Following, frontier: Frontier, *, depth: int) -> None:
        self._following = following
        self._frontier = frontier
        self._depth = depth
        self._memory = LinkMemory(following.normalise)
        self._traps = Traps(following.caps) if following.caps is not None else None
        self._sitemaps = 0
        self._guessed: set[str] = set()
        self._problems: list[str] = []
        self._problem_count = 0

    def begin(self, starts: Iterable[str]) -> None:
        hosts = {}
        for url in starts:
            self._frontier.add(url, 0, is_start=True)
            hosts[site(url)] = url
        following = self._following
        first = following.pagination.first() if following.pagination is not None else None
        if first is not None:
            self._name(first, 0)
        for url in following.sitemaps:
            self._list_sitemap(url, 1)
        if following.finds_sitemaps:
            # Level 0 is the robots.txt; the sitemaps that it names are of level 1.
            for host, url in hosts.items():
                self._frontier.add_sitemap(f"{url.partition('://')[0]}://{host}/robots.txt", 0)

    @property
    def leads_on(self) -> bool:
        """Whether any links of pages are followed."""
        return self._depth > 0 or self._following.pagination is not None

    def known_before(self, pages: Iterable[tuple[str, int]]) -> None:
        """Add the pages that an earlier crawl visited, each at the depth it had then."""
        for url, depth in pages:
            if depth <= self._depth:
                self._frontier.add(url, depth, refusal=self._refusal(depth))

    def links(self, link: Link, fetched: Fetched, facts: PageFacts) -> None:
        """Add the links of a page to the frontier."""
        found, pagination = facts.links, self._following.pagination
        if pagination is not None:
            for url in pagination.after(link.url, facts, fetched.body):
                self._name(url, link.depth)
        if not self._depth or (self._following.obeys_nofollow and not found.may_follow):
            return
        if found.refresh is not None and (target := canonical(found.refresh, facts.base)) is not None:
            # A refresh is like a redirect, but its page is a page as well: whatever became of the target, the visit
            # goes on.
            self._moved(link, target)
        depth = link.depth + 1
        if depth > self._depth:
            return
        hrefs = [*found.hrefs, *found.frames] if found.frames else found.hrefs
        if found.nofollow and self._following.obeys_nofollow:
            hrefs = [href for href in hrefs if href not in found.nofollow]
        if len(hrefs) > PAGE_LINKS or found.unread:
            hrefs = self._bounded(hrefs, found.unread)
        refusal = self._refusal(depth)
        for url in self._memory.fresh(hrefs, facts.base, depth):
            self._frontier.add(url, depth, refusal=refusal)

    def _bounded(self, hrefs: list[str], unread: int) -> list[str]:
        # The index of a manual links to every section of a page: each page counts once.
        pages = list(dict.fromkeys(href.partition("#")[0] for href in hrefs))
        if left_out := unread + max(0, len(pages) - PAGE_LINKS):
            self._frontier.left_out[TOO_MANY] += left_out
        return pages[:PAGE_LINKS]

    def redirect(self, link: Link, url: str, *, sets_cookie: bool = False) -> None:
        """Return if the redirect is to be followed at once; raise if it ends the visit.

        The target of a redirect is fetched as a page of its own, so that it is read once however many redirects lead to
        it. Only a redirect that sets a cookie, or leads back to where it came from, is followed at once: sites do this
        to recognise their visitors.
        """
        end = self._moved(link, url, sets_cookie=sets_cookie)
        if end is not None:
            raise end

    def _moved(self, link: Link, url: str, *, sets_cookie: bool = False) -> PageFailed | PageSkipped | PageMoved | None:
        """Add the target of a redirect in place of its link.

        Returns what ends the visit of the link, or None if the redirect is followed at once.
        """
        target = self._following.normalise(url)
        if target == link.url or target in link.via:
            return None
        if len(link.via) >= MAX_MOVES:
            message = f"{link.via[0]}: more than {MAX_MOVES} redirects"
            return PageFailed("http", message, permanent=True, kind="redirects")
        rules = self._following.rules
        if not rules.scope.holds(target):
            if not link.is_start:
                return PageSkipped(f"{link.url}: redirects to another host, {site(target)}")
            # A start URL that moved (to www., to https) names the site that was meant.
            self._widen(target)
        if sets_cookie and not self._frontier.is_shared:
            return self._refused(link, target)
        if self._frontier.knows(target):
            # The target may wait in the frontier at a greater depth than this link has.
            self._frontier.add(target, link.depth)
            return PageKnown(f"{link.url}: redirects to {target}, which is known")
        if (refused := self._refused(link, target)) is not None:
            return refused
        if not self._frontier.add_redirected(link, target):
            return PageSkipped(f"{link.url}: redirects to {target}, for which there is no room")
        return PageMoved(target)

    def _refused(self, link: Link, target: str) -> PageSkipped | None:
        if not link.is_start and (reason := self._refusal(link.depth, is_named=True)(target)) is not None:
            return PageSkipped(f"{link.url}: redirects to {target}, which is not followed ({reason})")
        return None

    def named_as(self, url: str) -> str:
        """Return the normalised form under which the frontier knows a canonical URL."""
        return self._following.normalise(url)

    def is_followed(self, url: str) -> bool:
        """Return whether the rules let a page pass, at whatever depth."""
        return self._following.rules.refusal(url, 0) is None

    def may_visit(self, link: Link, target: str) -> bool:
        """Return whether a page may be visited in the place of a link."""
        return self._frontier.knows(target) or self._refusal(link.depth)(target) is None

    def expect(self, urls: Iterable[str]) -> None:
        """Widen the scope by URLs that other members added: where a start URL led them, this member follows as well."""
        for url in urls:
            if not self._following.rules.scope.holds(url):
                self._widen(url)

    def arrived(self, link: Link, url: str) -> None:
        """Note the page to which redirects led that were followed at once.

        Raises PageKnown if that page is visited on its own.
        """
        target = self._following.normalise(url)
        if target == link.url or target in link.via:
            return
        if self._frontier.knows(target):
            raise PageKnown(f"{link.url}: redirects to {target}, which is known")
        self._frontier.claim(target)

    def listed(self, link: Link, entries: Iterable[Entry]) -> None:
        """Add the entries of a sitemap: pages at the depth of start URLs, and further sitemaps."""
        refusal = self._refusal(0)
        normalise = self._following.normalise
        for entry in entries:
            if not entry.is_sitemap:
                self._frontier.add(normalise(entry.url), 0, refusal=refusal)
                for _, url in entry.alternates:
                    self._frontier.add(normalise(url), 0, refusal=refusal)
            elif link.depth >= LEVELS:
                self.sitemap_failed(link, f"{entry.url} is more than {LEVELS} levels deep")
            elif site(entry.url) == site(link.url) or self._following.rules.scope.holds(entry.url):
                self._list_sitemap(entry.url, link.depth + 1)

    def named(self, link: Link, urls: list[str]) -> None:
        """Add the sitemaps that a robots.txt names, or /sitemap.xml where it names none."""
        if not urls:
            usual = link.url.removesuffix("/robots.txt") + "/sitemap.xml"
            self._guessed.add(usual)
            urls = [usual]
        for url in urls:
            self._list_sitemap(url, 1)

    def is_named(self, link: Link) -> bool:
        """Return whether the site's robots.txt, or the task, names exactly this sitemap."""
        return link.depth == 1 and link.url not in self._guessed

    def sitemap_failed(self, link: Link, why: str) -> None:
        if link.url in self._guessed:
            return
        self._problem_count += 1
        if len(self._problems) < NOTED_SITEMAPS:
            self._problems.append(f"sitemap {link.url}: {why}")

    def notes(self) -> list[str]:
        """Return sentences for people to read about what was left out, and why."""
        more = self._problem_count - len(self._problems)
        others = [f"and {more} more problems with sitemaps"] if more else []
        return [*(self._traps.notes() if self._traps is not None else ()), *self._problems, *others]

    def _widen(self, url: str) -> None:
        self._following.rules.scope.widen(url)
        self._memory.forget()
        self._frontier.reconsider()

    def _name(self, url: str, depth: int) -> None:
        self._frontier.add(url, depth, is_named=True, refusal=self._refusal(depth, is_named=True))

    def _list_sitemap(self, url: str, level: int) -> None:
        if self._sitemaps < FILES and self._frontier.add_sitemap(url, level):
            self._sitemaps += 1

    def _refusal(self, depth: int, *, is_named: bool = False) -> Callable[[str], str | None]:
        rules, traps = self._following.rules, self._traps

        def refusal(url: str) -> str | None:
            reason = rules.refusal(url, depth, is_named=is_named)
            if reason is None and traps is not None and (guard := traps.refusal(url)) is not None:
                return f"trap: {guard}"
            return reason

        return refusal
