"""robots.txt (RFC 9309) is read once per host and cached for a while.

A site without a robots.txt (4xx) allows everything; a site whose robots.txt cannot be fetched (5xx, no connection)
allows nothing for now, and the failure keeps its class, so that the task is tried again later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

from protego import Protego

from crawlfleet.execution.crawl.fetch.charset import decode_page
from crawlfleet.execution.crawl.fetch.fetcher import Fetcher
from crawlfleet.execution.crawl.fetch.responses import Fetched
from crawlfleet.execution.crawl.frontier.urls import canonical_url, origin_prefix, parse_origin, url_host
from crawlfleet.execution.page_failures import PageFailed, PageSkipped
from crawlfleet.execution.process_state.robots_cache import FAILED_S, RobotsCache, RobotsEntry
from crawlfleet.network.address_guard import AddressRefused

ROBOTS_BYTES = 500 << 10
ROBOTS_HOPS = 5
DELAY_MAX_S = 60.0
WAIT_MAX_S = 30.0
"""Limit on the seconds for which a crawl waits, once, for a robots.txt that is to be requested later."""
LATER_S = 0.5
"""Seconds until a refused robots.txt is requested again, where the site names no time."""
BUSY = frozenset({429, 503})
UNREACHED = frozenset({"dns", "connect"})
SITEMAPS = 1_000
HELD = 1_000
_IN_THREAD_BYTES = 32 << 10


class Robots:
    def __init__(
        self,
        fetcher: Fetcher,
        *,
        user_agent: str,
        on_delay: Callable[[str, float], None],
        log: Callable[[str, str], None],
        cache: RobotsCache | None = None,
    ) -> None:
        self._fetcher = fetcher
        # Sites name robots by the first word of their user agent.
        self._agent = user_agent.split("/", 1)[0].strip() or user_agent
        self._on_delay = on_delay
        self._log = log
        self._cache = RobotsCache() if cache is None else cache
        self._delays: dict[str, float] = {}
        self._recent_entries: dict[str, RobotsEntry] = {}
        """Recently used entries per scheme, host and port of a URL: for most pages no other lookup is needed."""

    async def check_allowed(self, url: str) -> None:
        """Raise PageFailed when the site's robots.txt does not allow this page."""
        start = origin_prefix(url)
        entry = self._recent_entries.get(start)
        if entry is None or not self._cache.is_good(entry):
            if len(self._recent_entries) >= HELD:
                self._recent_entries.clear()
            entry = self._recent_entries[start] = await self._load_entry(url)
        if entry.failure is not None:
            cause = entry.failure
            if isinstance(cause.__cause__, AddressRefused):
                # The message without the address of robots.txt: the refused address may be that of the proxy.
                reason = str(cause).partition(": ")[2]
                raise PageFailed("policy", f"{url}: {reason}", permanent=True)
            message = f"{url}: not fetched while its robots.txt cannot be read ({cause})"
            # A busy site is no evidence about its pages: they are requested again when the site may be asked.
            wait_s = max(LATER_S, cause.retry_after_s) if cause.status in BUSY else 0.0
            raise PageFailed(
                cause.error,
                message,
                permanent=cause.permanent,
                kind=cause.kind,
                status=cause.status,
                retry_after_s=wait_s,
            )
        if entry.rules is not None and not entry.rules.can_fetch(url, self._agent):
            raise PageFailed("policy", f"{url}: robots.txt does not allow it", permanent=True, kind="robots")

    def forget_failure(self, url: str) -> None:
        """Forget why a host's robots.txt could not be read: the host was away then."""
        entry = self._cache.get_entry(parse_origin(url).origin)
        if entry.failure is not None:
            entry.good_until = 0.0

    async def named_sitemaps(self, url: str) -> list[str]:
        """Return the sitemaps that the robots.txt of a URL's host names; none if it cannot be read.

        Raises PageFailed when the host did not answer: what its robots.txt names is not known then.
        """
        entry = await self._load_entry(url)
        if entry.failure is not None and entry.failure.kind in UNREACHED:
            raise PageFailed(entry.failure.error, str(entry.failure), kind=entry.failure.kind)
        urls = (
            (canonical_url(sitemap_url, url) for sitemap_url in islice(entry.rules.sitemaps, SITEMAPS))
            if entry.rules
            else ()
        )
        return [sitemap_url for sitemap_url in urls if sitemap_url is not None]

    async def _load_entry(self, url: str) -> RobotsEntry:
        origin = parse_origin(url).origin
        entry = self._cache.get_entry(origin)
        if not self._cache.is_good(entry):
            async with entry.lock:
                if not self._cache.is_good(entry):
                    await self._refresh_entry(url, entry)
        if entry.rules is not None:
            self._keep_delay(url_host(url), entry.rules)
        return entry

    async def _refresh_entry(self, url: str, entry: RobotsEntry) -> None:
        robots_url = f"{parse_origin(url).scheme}://{url_host(url)}/robots.txt"
        try:
            fetched = await self._fetch_robots(robots_url)
        except PageFailed as exc:
            if _has_no_robots(exc):
                self._cache.keep_rules(entry, None)
            elif isinstance(exc.__cause__, AddressRefused):
                # Which addresses may be visited is a setting of ours, and other executions may visit more.
                self._cache.keep_failure(entry, exc, 0.0)
            elif exc.status in BUSY:
                self._cache.keep_failure(entry, exc, min(max(LATER_S, exc.retry_after_s), FAILED_S))
            else:
                self._cache.keep_failure(entry, exc)
        except PageSkipped:
            self._cache.keep_rules(entry, None)
        else:
            rules = await _parse_rules(fetched)
            self._cache.keep_rules(
                entry, rules, size_bytes=len(fetched.body) if rules else 0, cache_control=fetched.cache_control
            )

    async def _fetch_robots(self, robots_url: str) -> Fetched:
        try:
            return await self._fetcher.fetch_head(robots_url, ROBOTS_BYTES, hops=ROBOTS_HOPS)
        except PageFailed as exc:
            if exc.status not in BUSY or not 0 < exc.retry_after_s <= WAIT_MAX_S:
                raise
            await asyncio.sleep(exc.retry_after_s)
        return await self._fetcher.fetch_head(robots_url, ROBOTS_BYTES, hops=ROBOTS_HOPS)

    def _keep_delay(self, host: str, rules: Protego) -> None:
        delay_s = rules.crawl_delay(self._agent) or 0.0
        if self._delays.get(host) == delay_s:
            return
        self._delays[host] = delay_s
        if delay_s > DELAY_MAX_S:
            self._log(f"{host} asks for {delay_s:g} s between pages; {DELAY_MAX_S:g} s are kept", "warning")
        self._on_delay(host, min(delay_s, DELAY_MAX_S))


async def _parse_rules(fetched: Fetched) -> Protego | None:
    """Parse a robots.txt; None for an HTML page, which many sites send for everything they do not have."""
    if fetched.body[:1_000].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        return None
    text = decode_page(fetched.body, fetched.charset or "utf-8")
    if len(text) > _IN_THREAD_BYTES:
        return await asyncio.to_thread(Protego.parse, text)
    return Protego.parse(text)


def _has_no_robots(failure: PageFailed) -> bool:
    """Return whether the site has no robots.txt. A site that answers 429 has one, and is busy."""
    is_absent = 400 <= failure.status < 500 and failure.status != 429
    return is_absent or (failure.error == "http" and failure.permanent)
