"""One crawl over many nodes: its limits, what it has done, and the URLs that its members pass on to each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from hashlib import blake2b
from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, GroupId, TaskId
from crawlfleet.model.instants import Instant

MEMBERS_MAX = 1_000
CHUNK_URLS = 100
"""URLs in one lease, at most."""
FOUND_MAX = 10_000_000
"""URLs that one crawl keeps track of."""


class UrlBatchState(IntEnum):
    """State of a batch of URLs."""

    WAITING = 0
    LEASED = 1
    """A member visits its URLs."""
    DONE = 2


class UrlFlag(IntFlag):
    START = 1
    SITEMAP = 2
    """A list of URLs, not a page."""
    CLOSING = 4
    """No URL: what is left to do when every page was visited, which is to say what is gone since an earlier crawl."""


class CrawlUrl(NamedTuple):
    """A canonical URL that is to be visited."""

    url: str
    depth: int
    tries: int = 0
    flags: int = 0
    via: tuple[str, ...] = ()
    """The URLs that redirected here, the first one first."""

    @property
    def key(self) -> bytes:
        """What it is known by. A sitemap has a name of its own: the same URL may be a page as well."""
        name = f"sitemap {self.url}" if self.flags & UrlFlag.SITEMAP else self.url
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class CrawlLimits(NamedTuple):
    """Of the whole crawl, whatever the number of its members."""

    members: int
    depth: int = 0
    max_pages: int = 100
    max_ms: int | None = None
    max_bytes: int | None = None


class CrawlCounts(NamedTuple):
    """Of reported chunks only: what was not reported is done again."""

    pages: int = 0
    failed: int = 0
    skipped: int = 0
    moved: int = 0
    """Redirected to other pages, which are visited as themselves."""
    items: int = 0
    bytes: int = 0
    pages_new: int = 0
    """Of a crawl that names an earlier one, against that; so are the others."""
    pages_changed: int = 0
    pages_unchanged: int = 0
    pages_gone: int = 0

    @property
    def visited(self) -> int:
        return self.pages + self.failed + self.skipped + self.moved


@dataclass(frozen=True, slots=True)
class CrawlState:
    id: GroupId
    limits: CrawlLimits
    counts: CrawlCounts
    found: int
    """Pages that were ever to be visited; sitemaps do not count."""
    leased: int
    """URLs that members are at."""
    started_at: Instant | None
    """When its first URLs were taken."""
    finished_at: Instant | None
    """When nothing was left to do, or a limit was reached."""
    stopped_by: str | None
    """The limit that ended it."""
    mark: tuple[Instant, int]
    """An instant some seconds ago, and the pages there were then."""
    chunks: int = 0
    """How many there were ever, which is the number of the last."""

    @property
    def queued(self) -> int:
        """Pages that wait or are being visited."""
        return max(0, self.found - self.counts.visited)

    def rate_per_s(self, now: Instant) -> float | None:
        """Pages per second, since it began."""
        if self.started_at is None:
            return None
        spent_ms = (self.finished_at or now) - self.started_at
        return self.counts.pages * 1_000 / spent_ms if spent_ms > 0 else None

    def lately_per_s(self, now: Instant) -> float | None:
        """Pages per second of the last ten seconds or so; None before the first and after the last."""
        at, pages = self.mark
        if self.started_at is None or self.finished_at is not None or now <= at:
            return None
        return (self.counts.pages - pages) * 1_000 / (now - at)

    def left_s(self, now: Instant) -> float | None:
        """How long the pages known so far take at this rate; more may be found."""
        rate = self.lately_per_s(now) or self.rate_per_s(now)
        if self.finished_at is not None or not rate:
            return None
        return min(self.queued, self.limits.max_pages - self.counts.pages) / rate


class CrawlPart(NamedTuple):
    """What a reported chunk left: which chunks of items or of records, of whose."""

    number: int
    task: TaskId
    execution: ExecutionId
    first: int
    last: int
    """Not included."""
