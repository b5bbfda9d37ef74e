"""The block tracker counts block pages per host: it reports blocked hosts, gives up on some, and logs long waits."""

from __future__ import annotations

from collections import Counter

from crawlfleet.execution.budget.host_gate import HostGate
from crawlfleet.execution.crawl.frontier.urls import budget_host, url_host
from crawlfleet.execution.page_failures import PageFailed

MAX_REFUSALS = 50
"""Number of refusals in a row after which a crawl gives up on a host for good: more requests do not lift a block."""
KNOWN_BLOCK_WEIGHT = 5
"""Weight of one block page whose product is recognised: such a page cannot be just a page for members."""
HOSTS = 10_000


class BlockTracker:
    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self._in_a_row: Counter[str] = Counter()
        self._unreported: set[str] = set()
        self._has_read_page = False
        self.blocked_pages: Counter[str] = Counter()
        """Number of pages per host that a block page replaced."""
        self.given_up: set[str] = set()
        self._waits: dict[str, float] = {}
        """Monotonic time per host until which it is left alone while the whole crawl has to wait for it."""
        self._longest_wait_s: Counter[str] = Counter()

    def note_failure(self, url: str, failure: PageFailed) -> None:
        if not failure.is_block_page:
            return
        host = url_host(url)
        if len(self.blocked_pages) < HOSTS or host in self.blocked_pages:
            self.blocked_pages[host] += 1
            self._in_a_row[host] += 1 if failure.block_product is None else KNOWN_BLOCK_WEIGHT
            if self._in_a_row[host] >= MAX_REFUSALS:
                self.given_up.add(host)
        self._unreported.add(budget_host(url))
        self._report_blocks()

    def note_page_read(self, url: str) -> None:
        """Note that a page was read: the host's refusals are no longer in a row."""
        self._in_a_row.pop(url_host(url), None)
        self._has_read_page = True
        self._report_blocks()

    def note_wait(self, host: str, away_s: float, now: float) -> str | None:
        """Note that the crawl stands still until the host may be asked; returns a message to log if that is new."""
        if now + away_s - self._waits.get(host, 0.0) < 1.0:
            return None
        self._waits[host] = now + away_s
        self._longest_wait_s[host] = max(self._longest_wait_s[host], round(away_s))
        return f"{host} asks to be left alone: the crawl waits for another {away_s:.0f} s"

    def _report_blocks(self) -> None:
        # A crawl that never reads a page fails as blocked, and the end of its execution reports the same.
        if self._has_read_page and self._unreported:
            for host in self._unreported:
                self._gate.report_block(host)
            self._unreported.clear()

    def describe_blocks(self) -> list[str]:
        """Return sentences about blocks and waits for people to read."""
        sentences = [f"{host} blocked {count} pages" for host, count in self.blocked_pages.most_common(5)]
        sentences += [
            f"{host} asked to be left alone for {s} s, and was" for host, s in self._longest_wait_s.most_common(5)
        ]
        return sentences + [f"{host} was left: it let nothing through any more" for host in sorted(self.given_up)[:5]]
