"""The block tracker counts block pages per host: it reports blocked hosts, gives up on some, and logs long waits."""

from __future__ import annotations

from collections import Counter

from crawlfleet.execution.budget.host_gate import HostGate
from crawlfleet.execution.crawl.frontier.urls import budget_host, url_host
from crawlfleet.execution.page_failures import PageFailed

ENOUGH = 50
"""Number of refusals in a row after which a crawl gives up on a host for good: more requests do not lift a block."""
KNOWN_WALL = 5
"""Weight of one block page whose product is recognised: such a page cannot be just a page for members."""
HOSTS = 10_000


class Blocks:
    def __init__(self, gate: HostGate) -> None:
        self._gate = gate
        self._in_a_row: Counter[str] = Counter()
        self._untold: set[str] = set()
        self._has_read = False
        self.pages: Counter[str] = Counter()
        """Number of pages per host that a block page replaced."""
        self.given_up: set[str] = set()
        self._waits: dict[str, float] = {}
        """Monotonic time per host until which it is left alone while the whole crawl has to wait for it."""
        self._longest_s: Counter[str] = Counter()

    def met(self, url: str, failure: PageFailed) -> None:
        if not failure.is_wall:
            return
        host = url_host(url)
        if len(self.pages) < HOSTS or host in self.pages:
            self.pages[host] += 1
            self._in_a_row[host] += 1 if failure.wall is None else KNOWN_WALL
            if self._in_a_row[host] >= ENOUGH:
                self.given_up.add(host)
        self._untold.add(budget_host(url))
        self._tell()

    def passed(self, url: str) -> None:
        """Note that a page was read: the host's refusals are no longer in a row."""
        self._in_a_row.pop(url_host(url), None)
        self._has_read = True
        self._tell()

    def waits(self, host: str, away_s: float, now: float) -> str | None:
        """Note that the crawl stands still until the host may be asked; returns a message to log if that is new."""
        if now + away_s - self._waits.get(host, 0.0) < 1.0:
            return None
        self._waits[host] = now + away_s
        self._longest_s[host] = max(self._longest_s[host], round(away_s))
        return f"{host} asks to be left alone: the crawl waits for another {away_s:.0f} s"

    def _tell(self) -> None:
        # A crawl that never reads a page fails as blocked, and the end of its execution reports the same.
        if self._has_read and self._untold:
            for host in self._untold:
                self._gate.report_block(host)
            self._untold.clear()

    def notes(self) -> list[str]:
        """Return sentences about blocks and waits for people to read."""
        noted = [f"{host} blocked {count} pages" for host, count in self.pages.most_common(5)]
        noted += [f"{host} asked to be left alone for {s} s, and was" for host, s in self._longest_s.most_common(5)]
        return noted + [f"{host} was left: it let nothing through any more" for host in sorted(self.given_up)[:5]]
