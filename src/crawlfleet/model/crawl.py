"""A crawl over many nodes: its limits, its counts, and the URLs that its members pass on to each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from hashlib import blake2b
from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, GroupId, TaskId
from crawlfleet.model.instants import Instant

MEMBERS_MAX = 1_000
"""Largest number of members of one crawl."""
CHUNK_URLS = 100
"""Largest number of URLs in one URL batch."""
FOUND_MAX = 10_000_000
"""Largest number of URLs that one crawl keeps track of."""


class UrlBatchState(IntEnum):
    """The state of a URL batch."""

    WAITING = 0
    LEASED = 1
    """The batch whose URLs a member visits."""
    DONE = 2


class UrlFlag(IntFlag):
    """The kind of an entry of the frontier."""

    START = 1
    """A seed of the crawl."""
    SITEMAP = 2
    """A sitemap, which is a list of URLs and not a page."""
    CLOSING = 4
    """Not a URL: the work that is left when every page was visited, which is to report the pages that are gone since
    an earlier crawl."""


class CrawlUrl(NamedTuple):
    """A canonical URL that is to be visited."""

    url: str
    depth: int
    """Number of links from a seed to the URL."""
    tries: int = 0
    """Number of visits that were tried before."""
    flags: int = 0
    """Flags of `UrlFlag`."""
    via: tuple[str, ...] = ()
    """URLs that redirected here, the first one first."""

    @property
    def key(self) -> bytes:
        """The hash that identifies the URL. A sitemap has a key of its own: the same URL may be a page as well."""
        name = f"sitemap {self.url}" if self.flags & UrlFlag.SITEMAP else self.url
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class CrawlLimits(NamedTuple):
    """The limits of the whole crawl, whatever the number of its members."""

    members: int
    depth: int = 0
    """Largest number of links from a seed to a page."""
    max_pages: int = 100
    max_ms: int | None = None
    """Longest duration of the crawl."""
    max_bytes: int | None = None


class CrawlCounts(NamedTuple):
    """The counts of reported URL batches only: what was not reported is done again."""

    pages: int = 0
    failed: int = 0
    skipped: int = 0
    moved: int = 0
    """Number of pages that redirected to other pages, which are visited under their own URL."""
    items: int = 0
    bytes: int = 0
    pages_new: int = 0
    """Number of pages that an earlier crawl, if the crawl names one, did not have."""
    pages_changed: int = 0
    """Number of pages that differ from the named earlier crawl."""
    pages_unchanged: int = 0
    """Number of pages that are as in the named earlier crawl."""
    pages_gone: int = 0
    """Number of pages of the named earlier crawl that no longer exist."""

    @property
    def visited(self) -> int:
        return self.pages + self.failed + self.skipped + self.moved


@dataclass(frozen=True, slots=True)
class CrawlState:
    """The state of a crawl over many nodes."""

    id: GroupId
    limits: CrawlLimits
    counts: CrawlCounts
    found: int
    """Number of pages that were ever to be visited; sitemaps do not count."""
    leased: int
    """Number of URLs in batches that members have leased."""
    started_at: Instant | None
    """Instant at which the crawl's first URLs were leased."""
    finished_at: Instant | None
    """Instant at which nothing was left to do, or a limit was reached."""
    stopped_by: str | None
    """Name of the limit that ended the crawl."""
    mark: tuple[Instant, int]
    """An instant some seconds ago, and the number of pages at that instant."""
    chunks: int = 0
    """Number of URL batches that ever existed, which is the number of the last one."""

    @property
    def queued(self) -> int:
        """The number of pages that wait or are being visited."""
        return max(0, self.found - self.counts.visited)

    def rate_per_s(self, now: Instant) -> float | None:
        """Return the pages per second since the crawl began."""
        if self.started_at is None:
            return None
        spent_ms = (self.finished_at or now) - self.started_at
        return self.counts.pages * 1_000 / spent_ms if spent_ms > 0 else None

    def recent_per_s(self, now: Instant) -> float | None:
        """Return the pages per second of about the last ten seconds; None before the first and after the last page."""
        at, pages = self.mark
        if self.started_at is None or self.finished_at is not None or now <= at:
            return None
        return (self.counts.pages - pages) * 1_000 / (now - at)

    def left_s(self, now: Instant) -> float | None:
        """Return how many seconds the pages known so far take at this rate; more may be found."""
        rate = self.recent_per_s(now) or self.rate_per_s(now)
        if self.finished_at is not None or not rate:
            return None
        return min(self.queued, self.limits.max_pages - self.counts.pages) / rate


class CrawlPart(NamedTuple):
    """The output of a reported URL batch: a range of an execution's chunks of items or archive records."""

    number: int
    """Number of the URL batch."""
    task: TaskId
    execution: ExecutionId
    first: int
    """Number of the first chunk."""
    last: int
    """End of the range of chunks; the chunk with this number is not included."""
