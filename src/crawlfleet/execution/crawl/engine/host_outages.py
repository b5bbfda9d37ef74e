"""Host outages: decides whether a page failed or its host, and how long a crawl waits for a host.

witness   a page that the host answered before. When a connection fails, or a gateway in front of the host answers that
          the host cannot be reached (502, 503, 504), the witness is requested: if it is answered, the failed page is
          to blame; if it is not, the host is away, and that is no evidence about any page
away      no page of the host is requested; the worker that noticed requests the witness, one request at a time with
          growing pauses, until it is answered or the patience is used up. Other hosts go on meanwhile
lost      the host was away for too long: all pages that wait for it fail at once, and for that reason
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable

from crawlfleet.execution.budget.host_gate import HostAway
from crawlfleet.execution.crawl.fetch.fetcher import Fetcher
from crawlfleet.execution.crawl.frontier.urls import url_host
from crawlfleet.execution.page_failures import PageFailed, PageSkipped

PAUSE_S, PAUSE_MOST_S = 0.5, 4.0
HOSTS = 10_000
NOTED = 5

ProbeHost = Callable[[str], Awaitable[bool]]
"""Function that requests a URL and returns whether it was answered, whatever the status."""


class HostOutages:
    def __init__(
        self, probe_host: ProbeHost, log: Callable[[str, str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._probe_host = probe_host
        self._log = log
        self._clock = clock
        self._witnesses: dict[str, str] = {}
        self._pending_checks: dict[str, asyncio.Future[bool]] = {}
        self._wake_callbacks: set[Callable[[], None]] = set()
        self._away_times: dict[str, tuple[str | None, float]] = {}
        """Seconds for which a host was away, with the page that it had answered last before that."""
        self._unfinished_waits: dict[str, float] = {}
        self._lost: dict[str, PageFailed] = {}
        self._failed_counts: Counter[str] = Counter()
        self.away: set[str] = set()

    def add_crawl(self, wake: Callable[[], None]) -> None:
        """Register a crawl: `wake` is called when a host that was away may be asked again, or is lost."""
        self._wake_callbacks.add(wake)

    def remove_crawl(self, wake: Callable[[], None]) -> None:
        self._wake_callbacks.discard(wake)

    def note_answer(self, url: str) -> None:
        if len(self._witnesses) >= HOSTS:
            self._witnesses.clear()
        self._witnesses[url_host(url)] = url

    def has_answered(self, url: str) -> bool:
        return url_host(url) in self._witnesses

    def is_lost(self, host: str) -> bool:
        return host in self._lost

    def make_lost_failure(self, url: str) -> PageFailed:
        """Return the failure with which a page of a lost host is counted."""
        host = url_host(url)
        self._failed_counts[host] += 1
        cause = self._lost[host]
        return PageFailed(cause.error, f"{url}: {cause}", kind=cause.kind)

    async def excuses_failure(self, url: str, failure: PageFailed, patience_s: float) -> bool:
        """Return whether a page whose connection failed is to be visited as if it had not been requested.

        Returns when its host answers, or is lost. Other pages of the host that fail meanwhile only wait for the first
        answer of the witness: they are not needed for more.
        """
        host = url_host(url)
        if (check := self._pending_checks.get(host)) is not None:
            return await asyncio.shield(check)
        check = self._pending_checks[host] = asyncio.get_running_loop().create_future()
        # A host without a witness here has answered another member. Its robots.txt may be requested whatever its rules
        # are, and is answered if only with a refusal.
        witness = self._witnesses.get(host) or f"{url.partition('://')[0]}://{host}/robots.txt"
        is_away = True
        try:
            is_away = not await self._probe_host(witness)
            if is_away:
                self.away.add(host)
                check.set_result(True)
                await self._wait_for_answer(host, witness, failure, patience_s)
            return is_away
        finally:
            self.away.discard(host)
            del self._pending_checks[host]
            if not check.done():
                check.set_result(is_away)
            for wake in self._wake_callbacks:
                wake()

    async def _wait_for_answer(self, host: str, witness: str, failure: PageFailed, patience_s: float) -> None:
        last_answered, earlier_s = self._away_times.get(host, (None, 0.0))
        # The time away adds up while no page is answered: a host that answers only its witness would be waited for
        # without end.
        began_at = self._clock() - (earlier_s if last_answered == self._witnesses.get(host) else 0.0)
        self._log(f"{host} does not answer any more ({failure}): waiting for it, {patience_s:g} s at most", "warning")
        pause_s = PAUSE_S
        try:
            while (left_s := began_at + patience_s - self._clock()) > 0:
                await asyncio.sleep(min(pause_s, left_s))
                pause_s = min(2 * pause_s, PAUSE_MOST_S)
                if await self._probe_host(witness):
                    away_s = self._clock() - began_at
                    self._away_times[host] = self._witnesses.get(host), away_s
                    self._log(f"{host} answers again after {away_s:.1f} s", "info")
                    return
        except asyncio.CancelledError:
            self._unfinished_waits[host] = self._clock() - began_at
            raise
        away_s = self._clock() - began_at
        self._lost[host] = PageFailed(failure.error, f"{host} did not answer for {away_s:.0f} s", kind=failure.kind)
        self._log(f"{host} did not answer for {away_s:.0f} s: what is left of it counts as failed", "warning")

    def describe_outages(self) -> list[str]:
        """Return sentences about outages for people to read."""
        sentences = [f"{why}: {self._failed_counts[host]} pages failed by that" for host, why in self._lost.items()]
        sentences += [
            f"{host} had not answered for {s:.0f} s when the crawl ended" for host, s in self._unfinished_waits.items()
        ]
        return sentences[:NOTED]


async def is_answered(fetcher: Fetcher, url: str) -> bool:
    try:
        await fetcher.fetch_head(url, 1, hops=0)
    except PageFailed as exc:
        # An answer that breaks off is an answer, too.
        return exc.kind == "cut" or not exc.may_be_host_outage
    except (PageSkipped, HostAway):
        pass
    return True
