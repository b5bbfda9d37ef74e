"""The crawl log reports a crawl while it runs: progress figures and log lines, with the host that limits its pace."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from crawlfleet.execution.budget.host_gate import HostGate, ProcessShare
from crawlfleet.execution.crawl.engine.plan import CrawlPlan

EVERY_S = 10.0
LEAST_VISITS = 10
"""Number of visits before a host is reported to limit a crawl, unless the requests to it are spaced."""
HOSTS_NAMED = 10
"""Limit on log lines about limiting hosts, so that a crawl of thousands of hosts does not fill its log with them."""


class CrawlReporter(Protocol):
    """The receiver of log lines and progress: the execution's context."""

    def log(self, message: str, level: str = "info") -> None: ...

    def progress(self, **figures: Any) -> None: ...


class CrawlFigures(Protocol):
    """The counters of a crawl that its log reads."""

    pages: int
    skipped: int
    moved: int
    data_bytes: int
    stopped_by: str | None

    @property
    def errors(self) -> Counter[str]: ...

    @property
    def failures(self) -> Counter[str]: ...


class CrawlLog:
    def __init__(
        self,
        plan: CrawlPlan,
        report: CrawlReporter,
        gate: HostGate,
        crawl: CrawlFigures,
        *,
        count_items: Callable[[], int],
        count_queued: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plan = plan
        self._report = report
        self._gate = gate
        self._crawl = crawl
        self._count_items = count_items
        self._count_queued = count_queued
        self._clock = clock
        self._began_at = self._logged_at = clock()
        self._visits: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self._limits: dict[str, str] = {}

    def log_start(self) -> None:
        plan = self._plan
        if not plan.urls:
            self._report.log("crawls as a member of a crawl over many nodes")
            return
        starts = "1 start URL" if len(plan.urls) == 1 else f"{len(plan.urls):,} start URLs"
        self._report.log(f"crawls {starts}, depth {plan.depth}, at most {plan.max_pages:,} pages")

    def report_visit(self, host: str) -> None:
        """Report the progress figures after each visit, and every EVERY_S seconds a log line."""
        limit = self._check_limit(host)
        extra_figures: dict[str, Any] = {} if limit is None else {"limited_by": host, "limit": limit}
        if self._plan.urls:
            extra_figures["max_pages"] = self._plan.max_pages
        crawl = self._crawl
        self._report.progress(
            pages=crawl.pages,
            items=self._count_items(),
            queued=self._count_queued(),
            failed=crawl.errors.total(),
            skipped=crawl.skipped,
            **extra_figures,
        )
        now = self._clock()
        if now - self._logged_at >= EVERY_S:
            self._logged_at = now
            rate = crawl.pages / max(0.001, now - self._began_at)
            self._report.log(
                f"{self._format_counts()}, {self._count_queued():,} URLs queued, {rate:.3g} pages a second"
            )

    def log_end(self) -> None:
        crawl = self._crawl
        why = "nothing is left to visit" if crawl.stopped_by is None else f"stopped by {crawl.stopped_by}"
        took_s = self._clock() - self._began_at
        self._report.log(f"ended, {why}: {self._format_counts()}, {crawl.data_bytes:,} bytes in {took_s:.1f} s")

    def _format_counts(self) -> str:
        crawl = self._crawl
        failed = f"{crawl.errors.total():,} failed"
        if crawl.failures:
            failed += f" ({', '.join(f'{kind} {count:,}' for kind, count in crawl.failures.most_common())})"
        moved = f", {crawl.moved:,} moved" if crawl.moved else ""
        return f"{crawl.pages:,} pages read, {failed}, {crawl.skipped:,} skipped{moved}, {self._count_items():,} items"

    def _check_limit(self, host: str) -> str | None:
        """Return what this node may ask of a host, if most visits of it end while other requests wait for it."""
        self._visits[host] += 1
        share = self._gate.awaited_share(host)
        if share is None:
            return None
        self._waits[host] += 1
        is_usual = self._visits[host] >= LEAST_VISITS and 2 * self._waits[host] > self._visits[host]
        if not is_usual and not share.spacing_ms:
            return None
        limit = _format_share(share)
        if self._limits.get(host) != limit and (host in self._limits or len(self._limits) < HOSTS_NAMED):
            self._limits[host] = limit
            option = "--delay" if share.spacing_ms else "--rate"
            self._report.log(
                f"host {host} sets the pace: its budget gives this node {limit}; "
                f"crawlfleet host set {host} {option} NUMBER changes it"
            )
        return limit


def _format_share(share: ProcessShare) -> str:
    if share.spacing_ms:
        return f"one request in {share.spacing_ms / 1000:.3g} s"
    return f"{share.rate}/s, {share.concurrency} at once"
