"""robots.txt: read once per host and execution, and kept (RFC 9309).

A site without one (4xx) allows everything; one whose robots.txt cannot be had (5xx, no connection) allows nothing for
now, and the failure keeps its class, so that the task is tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from protego import Protego

from crawlfleet.execution.crawl.addresses import AddressRefused
from crawlfleet.execution.crawl.charset import text_of
from crawlfleet.execution.crawl.failures import PageFailed, PageSkipped
from crawlfleet.execution.crawl.fetch import Fetcher
from crawlfleet.execution.crawl.links import canonical, place, site

ROBOTS_BYTES = 500 << 10
DELAY_MAX_S = 60.0
HOSTS = 1_000
SITEMAPS = 1_000
_IN_THREAD_BYTES = 32 << 10


@dataclass(slots=True)
class _Rules:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_read: bool = False
    rules: Protego | None = None
    failure: PageFailed | None = None


class Robots:
    def __init__(
        self,
        fetcher: Fetcher,
        *,
        user_agent: str,
        on_delay: Callable[[str, float], None],
        log: Callable[[str, str], None],
    ) -> None:
        self._fetcher = fetcher
        # A site names robots by the first word of their name.
        self._agent = user_agent.split("/", 1)[0].strip() or user_agent
        self._on_delay = on_delay
        self._log = log
        self._hosts: dict[str, _Rules] = {}

    async def check(self, url: str) -> None:
        """Raises PageFailed when the site does not want this page fetched."""
        known = self._known(place(url).origin)
        async with known.lock:
            if not known.is_read:
                await self._read(url, known)
        if known.failure is not None:
            cause = known.failure
            if isinstance(cause.__cause__, AddressRefused):
                raise PageFailed("policy", f"{url}: {cause.__cause__}", permanent=True)
            message = f"{url}: not fetched while its robots.txt cannot be read ({cause})"
            raise PageFailed(cause.error, message, permanent=cause.permanent)
        if known.rules is not None and not known.rules.can_fetch(url, self._agent):
            raise PageFailed("policy", f"{url}: robots.txt does not allow it", permanent=True)

    async def sitemaps(self, url: str) -> list[str]:
        """Those that the robots.txt of a URL's host names; none where it cannot be read."""
        known = self._known(place(url).origin)
        async with known.lock:
            if not known.is_read:
                await self._read(url, known)
        found = (canonical(named, url) for named in islice(known.rules.sitemaps, SITEMAPS)) if known.rules else ()
        return [named for named in found if named is not None]

    def _known(self, origin: str) -> _Rules:
        known = self._hosts.pop(origin, None) or _Rules()
        self._hosts[origin] = known
        if len(self._hosts) > HOSTS:
            self._hosts.pop(next(iter(self._hosts)))
        return known

    async def _read(self, url: str, known: _Rules) -> None:
        where = f"{place(url).scheme}://{site(url)}/robots.txt"
        try:
            fetched = await self._fetcher.fetch_head(where, ROBOTS_BYTES)
        except PageFailed as exc:
            if not _means_none(exc):
                known.failure = exc
        except PageSkipped:
            pass
        else:
            text = text_of(fetched.body, fetched.charset or "utf-8")
            if len(text) > _IN_THREAD_BYTES:
                known.rules = await asyncio.to_thread(Protego.parse, text)
            else:
                known.rules = Protego.parse(text)
            self._keep_delay(site(url), known.rules)
        known.is_read = True

    def _keep_delay(self, host: str, rules: Protego) -> None:
        delay_s = rules.crawl_delay(self._agent) or 0.0
        if delay_s > DELAY_MAX_S:
            self._log(f"{host} asks for {delay_s:g} s between pages; {DELAY_MAX_S:g} s are kept", "warning")
        self._on_delay(host, min(delay_s, DELAY_MAX_S))


def _means_none(failure: PageFailed) -> bool:
    """Whether the site has no robots.txt. One that says 429 has one, and is busy."""
    is_absent = 400 <= failure.status < 500 and failure.status != 429
    return is_absent or (failure.error == "http" and failure.permanent)
