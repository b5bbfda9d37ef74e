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
from crawlfleet.execution.crawl.engine.block_tracker import BlockTracker
from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
from crawlfleet.execution.crawl.engine.crawl_log import CrawlLog, CrawlReporter
from crawlfleet.execution.crawl.engine.failed_pages import FailedPages
from crawlfleet.execution.crawl.engine.host_outages import HostOutages
from crawlfleet.execution.crawl.engine.pacing import TOTAL, HostPacing
from crawlfleet.execution.crawl.engine.plan import CrawlPlan
from crawlfleet.execution.crawl.engine.side_requests import SideRequests
from crawlfleet.execution.crawl.fetch.fetcher import Fetcher, Hop
from crawlfleet.execution.crawl.fetch.responses import choose_readable_types
from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.fetch.robots_tags import directives_in_headers
from crawlfleet.execution.crawl.frontier.canonical_links import CanonicalLinks
from crawlfleet.execution.crawl.frontier.frontier import Ending, Frontier, Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.frontier.urls import budget_host, url_host
from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
from crawlfleet.execution.crawl.record.page_notes import PageNotes
from crawlfleet.execution.page_failures import PageFailed, PageKnown, PageMoved, PageSkipped
from crawlfleet.execution.process_state.robots_cache import RobotsCache

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
        collected_items: CollectedItems,
        report: CrawlReporter,
        frontier: Frontier | None = None,
        gate: HostGate | None = None,
        robots: RobotsCache | None = None,
        is_own_address: bool = True,
        page_notes: PageNotes | None = None,
        outages: HostOutages | None = None,
    ) -> None:
        self._plan = plan
        self._fetcher = fetcher
        self._reader = reader
        self._collected_items = collected_items
        self._report = report
        self._frontier = Frontier() if frontier is None else frontier
        self._pacing = HostPacing(concurrency=plan.concurrency, delay_s=plan.delay_s)
        self._gate: HostGate = gate or OpenGate()
        self._robots = Robots(
            fetcher, user_agent=plan.user_agent, on_delay=self._slow_down, log=report.log, cache=robots
        )
        self._link_filter = LinkFilter(plan.follow_config, self._frontier, depth=plan.depth)
        self._side_requests = SideRequests(
            fetcher=fetcher,
            reader=reader,
            robots=self._robots,
            respect_robots=plan.respect_robots,
            pacing=self._pacing,
            link_filter=self._link_filter,
            collected_items=collected_items,
            log=report.log,
        )
        self._canonical_links = (
            CanonicalLinks(self._link_filter, self._frontier, self._side_requests.fetch_page_facts)
            if plan.follow_config.obeys_canonical
            else None
        )
        # The directives for robots and the canonical URL of a page are parsed together with its links.
        self._reads_links = self._link_filter.follows_links or plan.obey_noindex or self._canonical_links is not None
        self._agent = plan.user_agent.partition("/")[0]
        # Sites block addresses: a block of a proxy's address is no evidence about this node.
        self.blocks = BlockTracker(self._gate if is_own_address else OpenGate())
        self._outages = outages or HostOutages(self._side_requests.probe_host, report.log)
        self._page_notes = page_notes
        self._in_flight = 0
        self._wake = asyncio.Event()
        self.pages = 0
        self.skipped = 0
        self.moved = 0
        """Number of pages that redirected to others, which were visited instead."""
        self.noindex_pages = 0
        """Number of pages that ask not to be kept (noindex)."""
        self.data_bytes = 0
        self._starts_read = 0
        self._starts_already_visited = 0
        self._failed_pages = FailedPages(
            plan,
            frontier=self._frontier,
            link_filter=self._link_filter,
            outages=self._outages,
            robots=self._robots,
            pacing=self._pacing,
            gate=self._gate,
            blocks=self.blocks,
            page_notes=page_notes,
            log=report.log,
        )
        self.start_failures = self._failed_pages.start_failures
        self.errors = self._failed_pages.errors
        """Number of failed pages per error class."""
        self.failures = self._failed_pages.kinds
        """Number of failed pages per kind, which is finer than the class."""
        self.stopped_by: str | None = None
        self._log = CrawlLog(
            plan,
            report,
            self._gate,
            self,
            count_items=lambda: collected_items.item_count,
            count_queued=lambda: len(self._frontier),
        )

    async def run(self) -> None:
        """Crawl until nothing is left to visit or a limit is reached.

        The results are in `collected_items` and in the attributes of this object.
        """
        self._link_filter.add_start_urls(self._plan.urls)
        if self._page_notes is not None:
            self._link_filter.add_earlier_pages(self._page_notes.earlier_pages())
        limit = asyncio.timeout(self._plan.max_seconds)
        self._gate.add_source(self)
        self._outages.add_crawl(self.wake)
        self._log.log_start()
        try:
            async with limit:
                await self._run_workers()
        except TimeoutError:
            if not limit.expired():
                raise
            self.stopped_by = "max_seconds"
        except BaseExceptionGroup as group:
            raise first_exception(group) from None
        finally:
            self._outages.remove_crawl(self.wake)
            self._gate.remove_source(self)
        self._log.log_end()

    def queued(self) -> dict[str, int]:
        """Return for the host gate how many requests per host could leave besides those under way.

        A part of a host budget beyond that number would be idle.
        """
        queued: Counter[str] = Counter()
        for host, count in self._frontier.queued_by_host().items():
            queued[budget_host(f"//{host}/")] += min(count, self._pacing.free_capacity(host))
        return queued

    def wake(self) -> None:
        self._wake.set()

    def add_member_urls(self, urls: Iterable[str]) -> None:
        """Add URLs that other members of the crawl found worth visiting."""
        self._link_filter.widen_scope(urls)

    def add_earlier_pages(self, pages: Iterable[tuple[str, int]]) -> None:
        """Add pages of an earlier crawl that no link led to, each with its depth from the start."""
        self._link_filter.add_earlier_pages(pages)

    @property
    def starts_reached(self) -> int:
        """Number of start URLs that were read, or that lead to pages which were visited already."""
        return self._starts_read + (self._starts_already_visited if self.pages else 0)

    @property
    def pending_start_failure(self) -> PageFailed | None:
        """The most recent failure because of which a start URL is tried again."""
        return self._failed_pages.pending_start_failure

    @property
    def dropped_count(self) -> int:
        """Number of URLs that were found and not added to the frontier, because it was full."""
        return self._frontier.dropped_count

    @property
    def left_out(self) -> Counter[str]:
        """Number of URLs that were found and are not followed, per reason."""
        return self._frontier.left_out

    def collect_notes(self) -> list[str]:
        same = self._canonical_links.describe_replacements() if self._canonical_links is not None else ()
        return [
            *self._link_filter.describe_omissions(),
            *same,
            *self.blocks.describe_blocks(),
            *self._outages.describe_outages(),
        ]

    async def _run_workers(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._start_workers(group)
                if not (self._in_flight or self._may_start() or self._frontier.is_open):
                    break
                await self._wait_for_work()

    def _start_workers(self, group: asyncio.TaskGroup) -> None:
        """Start as many workers as may be under way now."""
        while (link := self._next_link()) is not None:
            group.create_task(self._run_worker(link, group))

    async def _run_worker(self, first_link: Link, group: asyncio.TaskGroup) -> None:
        """Visit one link after the other, for as long as there is a link that may be visited."""
        link: Link | None = first_link
        while link is not None:
            await self._visit_link(link)
            link = self._next_link()
            # The links of this page may give work to further workers.
            self._start_workers(group)
        self._wake.set()

    def _next_link(self) -> Link | None:
        """Return the next link to visit, which counts as under way from now on."""
        lost = 0
        while self._may_start() and (link := self._frontier.pop_link(self._is_free)) is not None:
            host = url_host(link.url)
            if self._outages.is_lost(host):
                self._failed_pages.count_failure(link, self._outages.make_lost_failure(link.url))
                self._frontier.note_ending(link, "failed", 0)
                lost += 1
                if lost == AT_ONCE:
                    # A lost host may have a million links: let other tasks of the event loop run in between.
                    asyncio.get_running_loop().call_soon(self.wake)
                    return None
            elif host not in self.blocks.given_up:
                self._pacing.begin_page(host)
                self._in_flight += 1
                return link
            else:
                self._failed_pages.give_up_link(link)
        return None

    async def _wait_for_work(self) -> None:
        """Wait until a worker has nothing left to do, or a host becomes ready."""
        self._wake.clear()
        if self._in_flight or not self._frontier:
            await self._wake.wait()
            return
        # A crawl without any page yet ends here and is retried later; a crawl that has pages waits.
        host, away_s = min(((host, self._gate.away_s(host)) for host in self.queued()), key=itemgetter(1))
        if away_s > PATIENCE_S and not self.pages:
            raise HostAway(host, away_s)
        if away_s > PATIENCE_S and (message := self.blocks.note_wait(host, away_s, time.monotonic())) is not None:
            self._report.log(message, "warning")
        try:
            async with asyncio.timeout(max(0.05, away_s) if away_s > 0 else None):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _is_free(self, host: str) -> bool:
        if host in self._outages.away:
            return False
        if self._pacing.is_free(host) and self._gate.is_ready(budget_host(f"//{host}/")):
            return True
        # Links of a lost host are only counted, so that no request has to wait for them.
        return self._outages.is_lost(host)

    def _slow_down(self, host: str, delay_s: float) -> None:
        self._pacing.slow_down(host, delay_s)
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

    async def _visit_link(self, link: Link) -> None:
        ending: Ending | None = "read"
        size = 0
        try:
            size = await (self._side_requests.read_sitemap(link) if link.is_sitemap else self._crawl_page(link))
        except HostAway:
            self._frontier.put_back(link)
            ending = None
        except PageMoved as exc:
            self._outages.note_answer(link.url)
            self.moved += 1
            ending, size = "moved", exc.size
        except PageKnown as exc:
            self._starts_already_visited += link.is_start
            self._skip_page(link, str(exc))
            ending, size = "skipped", exc.size
        except PageSkipped as exc:
            self._skip_page(link, str(exc))
            ending = "skipped"
        except PageFailed as exc:
            ending = (
                None
                if await self._failed_pages.is_excused(link, exc) or self._failed_pages.schedule_retry(link, exc)
                else "failed"
            )
        finally:
            self._pacing.end_page(url_host(link.url))
            self._in_flight -= 1
        if ending is not None:
            self._frontier.note_ending(link, ending, size)
        self._log.report_visit(budget_host(link.url))

    async def _crawl_page(self, link: Link) -> int:
        if link.tries:
            await asyncio.sleep(RETRY_S)

        async def admit_request(url: str, hop: Hop) -> None:
            await self._admit_request(link, url, hop)

        conditions = self._page_notes.request_conditions(link.url) if self._page_notes is not None else None
        is_readable = choose_readable_types(is_start=link.is_start, has_json=self._plan.extraction.has_json)
        fetched = await self._fetcher.fetch(
            link.url, admit=admit_request, is_readable=is_readable, conditions=conditions
        )
        self.blocks.note_page_read(fetched.url)
        self._outages.note_answer(fetched.url)
        if fetched.url != link.url:
            self._link_filter.claim_final_page(link, fetched.url)
        if fetched.status == 304 and self._page_notes is not None:
            # The earlier crawl has noted the links of this page.
            await self._page_notes.note_page(link, fetched)
            self.pages += 1
            self._starts_read += link.is_start
            return 0
        facts = await self._reader.parse_page(
            fetched, container=self._collected_items.container, follow=self._reads_links
        )
        if fetched.robots_tags:
            facts.links.robots |= directives_in_headers(fetched.robots_tags, self._agent)
        if (
            self._canonical_links is not None
            and (end := await self._canonical_links.redirect_to_canonical(link, fetched.url, facts)) is not None
        ):
            # The links of this page may stand on no other page.
            self._link_filter.add_page_links(link, fetched, facts)
            end.size = len(fetched.body)
            self.data_bytes += end.size
            raise end
        is_wanted = self._page_notes is None or await self._page_notes.note_page(link, fetched)
        self.pages += 1
        self.data_bytes += len(fetched.body)
        self._starts_read += link.is_start
        self._link_filter.add_page_links(link, fetched, facts)
        if is_wanted and self._plan.obey_noindex and not facts.links.may_keep:
            self.noindex_pages += 1
        elif is_wanted:
            await self._collected_items.add_page(fetched.url, fetched.status, facts, link.batch_number)
        return len(fetched.body)

    async def _admit_request(self, link: Link, url: str, hop: Hop) -> None:
        """Check each request, redirects included, before it leaves: link filter, robots.txt, then the host's pacing."""
        if hop.number:
            self._link_filter.follow_redirect(link, url, sets_cookie=hop.sets_cookie)
        if self._plan.respect_robots:
            await self._robots.check_allowed(url)
        await self._pacing.wait_turn(url_host(url))

    def _skip_page(self, link: Link, why: str) -> None:
        self.skipped += 1
        if link.is_start:
            # A start URL without anything to read is a failure, and a second try would find the same.
            self.start_failures.append(PageFailed("parse", why, permanent=True))
        self._report.log(why, "debug")


def first_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return first_exception(first) if isinstance(first, BaseExceptionGroup) else first
