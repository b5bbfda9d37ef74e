"""Failed pages of a crawl: which failures are excused because the host is away, which pages are tried again, and how
the others are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from crawlfleet.execution.budget.host_gate import HostGate
from crawlfleet.execution.crawl.engine.block_tracker import BlockTracker
from crawlfleet.execution.crawl.engine.host_outages import HostOutages
from crawlfleet.execution.crawl.engine.pacing import HOLD_MAX_S, HostPacing
from crawlfleet.execution.crawl.engine.plan import CrawlPlan
from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.frontier.frontier import Frontier, Link
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.frontier.urls import budget_host, url_host
from crawlfleet.execution.crawl.record.page_notes import PageNotes
from crawlfleet.execution.page_failures import PageFailed

PAGE_TRIES = 2
REFUSED_TRIES = 4
"""Limit on tries of a page when the site asks to come back later: such a refusal is no evidence about the page."""
LOGGED_FAILURES = 200


class FailedPages:
    def __init__(
        self,
        plan: CrawlPlan,
        *,
        frontier: Frontier,
        link_filter: LinkFilter,
        outages: HostOutages,
        robots: Robots,
        pacing: HostPacing,
        gate: HostGate,
        blocks: BlockTracker,
        page_notes: PageNotes | None,
        log: Callable[[str, str], None],
    ) -> None:
        self._plan = plan
        self._frontier = frontier
        self._link_filter = link_filter
        self._outages = outages
        self._robots = robots
        self._pacing = pacing
        self._gate = gate
        self._blocks = blocks
        self._page_notes = page_notes
        self._log = log
        self.start_failures: list[PageFailed] = []
        """Failures of start URLs."""
        self.pending_start_failure: PageFailed | None = None
        """The most recent failure because of which a start URL is tried again."""
        self.errors: Counter[str] = Counter()
        """Number of failed pages per error class."""
        self.kinds: Counter[str] = Counter()
        """Number of failed pages per kind, which is finer than the class."""

    async def is_excused(self, link: Link, failure: PageFailed) -> bool:
        """Return whether the host failed and not the page, which is then put back as if it had not been tried."""
        patience_s = self._plan.wait_for_host_s
        if not failure.may_be_host_outage or not patience_s or not self._has_known_host(link):
            return False
        if failure.failed_url and url_host(failure.failed_url) != url_host(link.url):
            return False
        self._robots.forget_failure(link.url)
        if not await self._outages.excuses_failure(link.url, failure, patience_s):
            return False
        self._robots.forget_failure(link.url)
        self._frontier.put_back(link)
        return True

    def _has_known_host(self, link: Link) -> bool:
        """Return whether the link's host has answered before.

        In a crawl over many nodes, another member has read the page that led to this link.
        """
        if self._outages.has_answered(link.url):
            return True
        return link.batch_number > 0 and link.depth > 0 and self._plan.follow_config.rules.scope.is_start_site(link.url)

    def schedule_retry(self, link: Link, failure: PageFailed) -> bool:
        """Return whether a failed page is put back into the frontier; if not, count it as failed."""
        link.tries += 1
        self._blocks.note_failure(link.url, failure)
        if failure.retry_after_s and failure.status in {429, 503}:
            self._pacing.hold_back(url_host(link.url), failure.retry_after_s)
        # Where the host gate holds all requests to a host back, the crawl waits however long the host asks for.
        is_soon = failure.retry_after_s <= HOLD_MAX_S or self._gate.away_s(budget_host(link.url)) > 0
        tries = REFUSED_TRIES if failure.asks_to_wait else PAGE_TRIES
        if not failure.permanent and link.tries < tries and is_soon:
            self._frontier.put_back(link)
            self.pending_start_failure = failure if link.is_start else self.pending_start_failure
            return True
        self.count_failure(link, failure)
        return False

    def give_up_link(self, link: Link) -> None:
        """Count a link as left out, because its host blocks everything."""
        self._frontier.left_out["blocked"] += 1
        if link.is_start:
            self.start_failures.append(PageFailed("blocked", f"{link.url}: its host lets nothing through"))
        self._frontier.note_ending(link, "skipped", 0)

    def count_failure(self, link: Link, failure: PageFailed) -> None:
        if link.is_sitemap:
            # A sitemap is no page: the URLs it lists may be found by links all the same.
            self._link_filter.note_sitemap_failure(link, str(failure))
            return
        if self._page_notes is not None:
            self._page_notes.note_failure(link, failure)
        self.errors[failure.error] += 1
        self.kinds[failure.kind] += 1
        if link.is_start:
            self.start_failures.append(failure)
        failed = self.errors.total()
        if failed <= LOGGED_FAILURES:
            self._log(f"{failure.error}: {failure}", "warning")
        if failed == LOGGED_FAILURES:
            self._log("further failures are counted, not logged", "warning")
