"""The crawl loop of one node: it takes links from the frontier, visits them and adds the links found on their pages.

The parts meet here and nowhere else: frontier (which URL), link filter (what is followed), pacing (when), robots.txt
(whether), fetcher (how), page parser (what is in the page), collected items (where the records go).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter

from crawlfleet.execution.budget.host_gate import PATIENCE_S, HostAway, HostGate, OpenGate
from crawlfleet.execution.crawl.engine.block_tracker import Blocks
from crawlfleet.execution.crawl.engine.collected_items import Gathered
from crawlfleet.execution.crawl.engine.crawl_log import CrawlLog, Report
from crawlfleet.execution.crawl.engine.failed_pages import FailedPages
from crawlfleet.execution.crawl.engine.host_outages import Outages, is_answered
from crawlfleet.execution.crawl.engine.pacing import HOLD_MAX_S, TOTAL, Pace
from crawlfleet.execution.crawl.engine.plan import CrawlPlan
from crawlfleet.execution.crawl.fetch.fetcher import PAGE_BYTES, Fetcher, Hop
from crawlfleet.execution.crawl.fetch.responses import Reads, is_json, is_page, is_text
from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.fetch.robots_tags import in_headers
from crawlfleet.execution.crawl.frontier.canonical_links import CanonicalLinks
from crawlfleet.execution.crawl.frontier.frontier import Ending, Frontier, Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.frontier.sitemaps import FILE_BYTES, Sitemap
from crawlfleet.execution.crawl.frontier.urls import budget_host, url_host
from crawlfleet.execution.crawl.parse.page_parser import PageFacts
from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
from crawlfleet.execution.crawl.record.page_notes import PageBook
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped
from crawlfleet.execution.process_state.robots_cache import RobotsCache

PAGE_TRIES = 2
REFUSED_TRIES = 4
"""Limit on tries of a page when the site asks to come back later: such a refusal is no evidence about the page."""
RETRY_S = 0.5
AT_ONCE = 1_000
"""Number of links of a lost host that are counted before other work gets its turn."""


class Crawl:
    def __init__(
        self,
        plan: CrawlPlan,
        *,
        fetcher: Fetcher,
        reader: PageParser,
        gathered: Gathered,
        report: Report,
        frontier: Frontier | None = None,
        gate: HostGate | None = None,
        robots: RobotsCache | None = None,
        is_own_address: bool = True,
        book: PageBook | None = None,
        outages: Outages | None = None,
    ) -> None:
        self._plan = plan
        self._fetcher = fetcher
        self._reader = reader
        self._gathered = gathered
        self._report = report
        self._frontier = Frontier() if frontier is None else frontier
        self._pace = Pace(concurrency=plan.concurrency, delay_s=plan.delay_s)
        self._gate: HostGate = gate or OpenGate()
        self._robots = Robots(
            fetcher, user_agent=plan.user_agent, on_delay=self._slow_down, log=report.log, cache=robots
        )
        self._outlook = LinkFilter(plan.following, self._frontier, depth=plan.depth)
        self._same_pages = (
            CanonicalLinks(self._outlook, self._frontier, self._look) if plan.following.obeys_canonical else None
        )
        # The directives for robots and the canonical URL of a page are parsed together with its links.
        self._reads_links = self._outlook.follows_links or plan.obey_noindex or self._same_pages is not None
        self._agent = plan.user_agent.partition("/")[0]
        # Sites block addresses: a block of a proxy's address is no evidence about this node.
        self.blocks = Blocks(self._gate if is_own_address else OpenGate())
        self._outages = outages or Outages(self._is_there, report.log)
        self._book = book
        self._in_flight = 0
        self._wake = asyncio.Event()
        self.pages = 0
        self.skipped = 0
        self.moved = 0
        """Number of pages that redirected to others, which were visited instead."""
        self.unkept = 0
        """Number of pages that ask not to be kept (noindex)."""
        self.data_bytes = 0
        self._starts_read = 0
        self._starts_known = 0
        self._failed = FailedPages(
            plan,
            frontier=self._frontier,
            outlook=self._outlook,
            outages=self._outages,
            robots=self._robots,
            book=book,
            log=report.log,
        )
        self.start_failures = self._failed.starts
        self.start_waits: PageFailed | None = None
        """The most recent failure because of which a start URL is tried again."""
        self.errors = self._failed.errors
        """Number of failed pages per error class."""
        self.failures = self._failed.kinds
        """Number of failed pages per kind, which is finer than the class."""
        self.stopped_by: str | None = None
        self._log = CrawlLog(
            plan, report, self._gate, self, items=lambda: gathered.items, queued=lambda: len(self._frontier)
        )

    async def run(self) -> None:
        """Crawl until nothing is left to visit or a limit is reached.

        The results are in `gathered` and in the attributes of this object.
        """
        self._outlook.add_start_urls(self._plan.urls)
        if self._book is not None:
            self._outlook.add_earlier_pages(self._book.known())
        limit = asyncio.timeout(self._plan.max_seconds)
        self._gate.add_source(self)
        self._outages.enter(self.wake)
        self._log.begin()
        try:
            async with limit:
                await self._drive()
        except TimeoutError:
            if not limit.expired():
                raise
            self.stopped_by = "max_seconds"
        except BaseExceptionGroup as group:
            raise first_of(group) from None
        finally:
            self._outages.leave(self.wake)
            self._gate.remove_source(self)
        self._log.end()

    def queued(self) -> dict[str, int]:
        """Return for the host gate how many requests per host could leave besides those under way.

        A part of a host budget beyond that number would be idle.
        """
        queued: Counter[str] = Counter()
        for host, count in self._frontier.queued_by_host().items():
            queued[budget_host(f"//{host}/")] += min(count, self._pace.room(host))
        return queued

    def wake(self) -> None:
        self._wake.set()

    def expect(self, urls: Iterable[str]) -> None:
        """Add URLs that other members of the crawl found worth visiting."""
        self._outlook.widen_scope(urls)

    def expect_known(self, pages: Iterable[tuple[str, int]]) -> None:
        """Add pages of an earlier crawl that no link led to, each with its depth from the start."""
        self._outlook.add_earlier_pages(pages)

    @property
    def starts_reached(self) -> int:
        """Number of start URLs that were read, or that lead to pages which were visited already."""
        return self._starts_read + (self._starts_known if self.pages else 0)

    @property
    def dropped(self) -> int:
        """Number of URLs that were found and not added to the frontier, because it was full."""
        return self._frontier.dropped_count

    @property
    def left_out(self) -> Counter[str]:
        """Number of URLs that were found and are not followed, per reason."""
        return self._frontier.left_out

    def notes(self) -> list[str]:
        same = self._same_pages.describe_replacements() if self._same_pages is not None else ()
        return [*self._outlook.describe_omissions(), *same, *self.blocks.notes(), *self._outages.notes()]

    async def _drive(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._start(group)
                if not (self._in_flight or self._may_start() or self._frontier.is_open):
                    break
                await self._pause()

    def _start(self, group: asyncio.TaskGroup) -> None:
        """Start as many workers as may be under way now."""
        while (link := self._next()) is not None:
            group.create_task(self._work(link, group))

    async def _work(self, first: Link, group: asyncio.TaskGroup) -> None:
        """Visit one link after the other, for as long as there is a link that may be visited."""
        link: Link | None = first
        while link is not None:
            await self._visit(link)
            link = self._next()
            # The links of this page may give work to further workers.
            self._start(group)
        self._wake.set()

    def _next(self) -> Link | None:
        """Return the next link to visit, which counts as under way from now on."""
        lost = 0
        while self._may_start() and (link := self._frontier.pop_link(self._is_free)) is not None:
            host = url_host(link.url)
            if self._outages.is_lost(host):
                self._failed.count(link, self._outages.failed(link.url))
                self._frontier.note_ending(link, "failed", 0)
                lost += 1
                if lost == AT_ONCE:
                    # A lost host may have a million links: let other tasks of the event loop run in between.
                    asyncio.get_running_loop().call_soon(self.wake)
                    return None
            elif host not in self.blocks.given_up:
                self._pace.begin(host)
                self._in_flight += 1
                return link
            else:
                self._give_up(link)
        return None

    async def _pause(self) -> None:
        """Wait until a worker has nothing left to do, or a host becomes ready."""
        self._wake.clear()
        if self._in_flight or not self._frontier:
            await self._wake.wait()
            return
        # A crawl without any page yet ends here and is retried later; a crawl that has pages waits.
        host, away_s = min(((host, self._gate.away_s(host)) for host in self.queued()), key=itemgetter(1))
        if away_s > PATIENCE_S and not self.pages:
            raise HostAway(host, away_s)
        if away_s > PATIENCE_S and (said := self.blocks.waits(host, away_s, time.monotonic())) is not None:
            self._report.log(said, "warning")
        try:
            async with asyncio.timeout(max(0.05, away_s) if away_s > 0 else None):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _is_free(self, host: str) -> bool:
        if host in self._outages.away:
            return False
        if self._pace.is_free(host) and self._gate.is_ready(budget_host(f"//{host}/")):
            return True
        # Links of a lost host are only counted, so that no request has to wait for them.
        return self._outages.is_lost(host)

    def _slow_down(self, host: str, delay_s: float) -> None:
        self._pace.slow_down(host, delay_s)
        self._gate.set_crawl_delay(budget_host(f"//{host}/"), delay_s)

    def _may_start(self) -> bool:
        if not self._frontier or self._in_flight >= TOTAL:
            return False
        if self._plan.max_bytes is not None and self.data_bytes >= self._plan.max_bytes:
            self.stopped_by = "max_bytes"
            return False
        # Pages under way count as well, so that the limit is kept exactly.
        if self.pages + self._in_flight >= self._plan.max_pages:
            if self.pages >= self._plan.max_pages:
                self.stopped_by = "max_pages"
            return False
        return True

    async def _visit(self, link: Link) -> None:
        how: Ending | None = "read"
        size = 0
        try:
            size = await (self._read_sitemap(link) if link.is_sitemap else self._crawl_page(link))
        except HostAway:
            self._frontier.put_back(link)
            how = None
        except PageMoved as exc:
            self._outages.answered(link.url)
            self.moved += 1
            how, size = "moved", exc.size
        except PageKnown as exc:
            self._starts_known += link.is_start
            self._leave(link, str(exc))
            how, size = "skipped", exc.size
        except PageSkipped as exc:
            self._leave(link, str(exc))
            how = "skipped"
        except PageFailed as exc:
            how = None if await self._failed.is_excused(link, exc) or self._comes_again(link, exc) else "failed"
        finally:
            self._pace.end(url_host(link.url))
            self._in_flight -= 1
        if how is not None:
            self._frontier.note_ending(link, how, size)
        self._log.visited(budget_host(link.url))

    async def _crawl_page(self, link: Link) -> int:
        if link.tries:
            await asyncio.sleep(RETRY_S)

        async def admit(url: str, hop: Hop) -> None:
            await self._admit(link, url, hop)

        conditions = self._book.conditions(link.url) if self._book is not None else None
        fetched = await self._fetcher.fetch(link.url, admit=admit, reads=self._reads(link), conditions=conditions)
        self.blocks.passed(fetched.url)
        self._outages.answered(fetched.url)
        if fetched.url != link.url:
            self._outlook.claim_final_page(link, fetched.url)
        if fetched.status == 304 and self._book is not None:
            # The earlier crawl has noted the links of this page.
            await self._book.read(link, fetched)
            self.pages += 1
            self._starts_read += link.is_start
            return 0
        facts = await self._reader.parse_page(fetched, container=self._gathered.container, follow=self._reads_links)
        if fetched.robots_tags:
            facts.links.robots |= in_headers(fetched.robots_tags, self._agent)
        if (
            self._same_pages is not None
            and (end := await self._same_pages.redirect_to_canonical(link, fetched.url, facts)) is not None
        ):
            # The links of this page may stand on no other page.
            self._outlook.add_page_links(link, fetched, facts)
            end.size = len(fetched.body)
            self.data_bytes += end.size
            raise end
        is_wanted = self._book is None or await self._book.read(link, fetched)
        self.pages += 1
        self.data_bytes += len(fetched.body)
        self._starts_read += link.is_start
        self._outlook.add_page_links(link, fetched, facts)
        if is_wanted and self._plan.obey_noindex and not facts.links.may_keep:
            self.unkept += 1
        elif is_wanted:
            await self._gathered.add(fetched.url, fetched.status, facts, link.batch_number)
        return len(fetched.body)

    async def _look(self, url: str) -> PageFacts:
        """Fetch and parse a page outside of its visit."""
        if self._plan.respect_robots:
            await self._robots.check(url)
        await self._pace.turn(url_host(url))
        fetched = await self._fetcher.fetch_head(url, PAGE_BYTES, hops=0)
        if not is_page(fetched.content_type):
            raise PageSkipped(f"{url}: {fetched.content_type} is not read")
        return await self._reader.parse_page(fetched, container=self._gathered.container, follow=True)

    def _reads(self, link: Link) -> Reads:
        """Return which content types are read: JSON if the plan extracts from it, feeds and tables at start URLs."""
        of_text = is_text if link.is_start else is_page
        if not self._plan.extraction.has_json:
            return of_text
        return lambda content_type: is_json(content_type) or of_text(content_type)

    async def _read_sitemap(self, link: Link) -> int:
        if link.depth == 0:
            self._outlook.add_robots_sitemaps(link, await self._robots.sitemaps(link.url))
            return 0
        if self._plan.respect_robots and not self._outlook.is_named_sitemap(link):
            await self._robots.check(link.url)
        await self._pace.turn(url_host(link.url))
        fetched = await self._fetcher.fetch_head(link.url, FILE_BYTES)
        sitemap = Sitemap(fetched.body, fetched.url)
        for entries in sitemap.parse_batches():
            self._outlook.add_sitemap_entries(link, entries)
            await asyncio.sleep(0)
        if sitemap.problem is not None:
            self._outlook.note_sitemap_failure(link, sitemap.problem)
        self._report.log(f"sitemap {link.url}: {sitemap.entry_count:,} entries")
        return 0

    async def _admit(self, link: Link, url: str, hop: Hop) -> None:
        """Check each request, redirects included, before it leaves: link filter, robots.txt, then the host's pacing."""
        if hop.number:
            self._outlook.follow_redirect(link, url, sets_cookie=hop.sets_cookie)
        if self._plan.respect_robots:
            await self._robots.check(url)
        await self._pace.turn(url_host(url))

    def _leave(self, link: Link, why: str) -> None:
        self.skipped += 1
        if link.is_start:
            # A start URL without anything to read is a failure, and a second try would find the same.
            self.start_failures.append(PageFailed("parse", why, permanent=True))
        self._report.log(why, "debug")

    def _give_up(self, link: Link) -> None:
        self._frontier.left_out["blocked"] += 1
        if link.is_start:
            self.start_failures.append(PageFailed("blocked", f"{link.url}: its host lets nothing through"))
        self._frontier.note_ending(link, "skipped", 0)

    async def _is_there(self, url: str) -> bool:
        await self._pace.turn(url_host(url))
        return await is_answered(self._fetcher, url)

    def _comes_again(self, link: Link, failure: PageFailed) -> bool:
        """Return whether a failed page is put back into the frontier; if not, count it as failed."""
        link.tries += 1
        self.blocks.met(link.url, failure)
        if failure.retry_after_s and failure.status in {429, 503}:
            self._pace.hold(url_host(link.url), failure.retry_after_s)
        # Where the host gate holds all requests to a host back, the crawl waits however long the host asks for.
        is_soon = failure.retry_after_s <= HOLD_MAX_S or self._gate.away_s(budget_host(link.url)) > 0
        tries = REFUSED_TRIES if failure.is_later else PAGE_TRIES
        if not failure.permanent and link.tries < tries and is_soon:
            self._frontier.put_back(link)
            self.start_waits = failure if link.is_start else self.start_waits
            return True
        self._failed.count(link, failure)
        return False


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first
