"""The frontier holds the URLs still to be visited: each once, hosts in turn, breadth first within a host, and bounded.

known     a digest of every URL that was ever added, with the depth it is queued at: sixteen bytes, however long the
          URL is
queued    per host, and there by rank: start URLs, URLs of sitemaps, then link by link away from them. A waiting URL is
          its text and nothing else; it becomes a Link when it is popped
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Literal

from crawlfleet.execution.crawl.frontier.urls import url_host

MAX_URLS = 1_000_000
MAX_REPORTED_HOSTS = 500
MAX_REFUSED_URLS = 100_000
FULL, TOO_DEEP = "no room", "too deep"
_POPPED = -1


@dataclass(slots=True)
class Link:
    url: str
    depth: int
    is_start: bool = False
    tries: int = 0
    via: tuple[str, ...] = ()
    """URLs that redirected here, the first one first."""
    is_sitemap: bool = False
    """Whether the URL is a sitemap and not a page."""
    batch_number: int = 0
    """Number of the URL batch that the link was leased with, in a crawl over many nodes."""


Ending = Literal["read", "failed", "skipped", "moved"]
Refusal = Callable[[str], str | None]
"""Function that returns why a URL is not to be visited, or None; it is called for new URLs only."""
LinksByRank = dict[int, "deque[str | Link]"]
"""Waiting links of one host per rank."""


def url_digest(url: str) -> bytes:
    """Return the digest that identifies a URL wherever many URLs are stored."""
    return blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Frontier:
    def __init__(self, max_urls: int = MAX_URLS) -> None:
        self._max_urls = max_urls
        self._depth_by_digest: dict[bytes, int] = {}
        self._links_by_host: dict[str, LinksByRank] = {}
        self._queued_by_host: dict[str, int] = {}
        self._count = 0
        # Refused URLs are kept in a set of their own: links to elsewhere must not use up the capacity for pages.
        self._refused: set[bytes] = set()
        self.left_out: Counter[str] = Counter()
        """Number of URLs that were found and are not to be visited, per reason."""
        self.is_open = False
        """Whether more URLs may come from elsewhere."""
        self.is_shared = False
        """Whether other members visit URLs that are found here: what they do with a URL is not known here."""

    def __len__(self) -> int:
        return self._count

    @property
    def known_count(self) -> int:
        return len(self._depth_by_digest)

    @property
    def dropped_count(self) -> int:
        """Number of new URLs that were refused because the frontier was full."""
        return self.left_out[FULL]

    def is_known(self, url: str) -> bool:
        return url_digest(url) in self._depth_by_digest

    def queued_by_host(self) -> dict[str, int]:
        """Return how many links wait per host; at most MAX_REPORTED_HOSTS hosts are included."""
        return dict(islice(self._queued_by_host.items(), MAX_REPORTED_HOSTS))

    def add_url(
        self, url: str, depth: int, *, is_start: bool = False, is_named: bool = False, refusal: Refusal | None = None
    ) -> bool:
        """Add a canonical URL, unless it is known, the frontier is full, or `refusal` has a reason against it.

        A queued URL moves forward when it is found nearer to the start. A URL that is named explicitly, not just linked
        to, may have been refused before.
        """
        key = url_digest(url)
        known_depth = self._depth_by_digest.get(key)
        if known_depth is not None:
            if depth < known_depth:
                self._depth_by_digest[key] = depth
                self._rank_queue(url_host(url), depth + 1).append(url)
            return False
        if not is_named and key in self._refused:
            return False
        reason = refusal(url) if refusal is not None else None
        if reason is None and len(self._depth_by_digest) >= self._max_urls:
            reason = FULL
        if reason is not None:
            self._leave_out(key, reason)
            return False
        self._depth_by_digest[key] = depth
        self._queue_link(Link(url, depth, is_start) if is_start else url, url, 0 if is_start else depth + 1)
        return True

    def forget_refusals(self) -> None:
        """Forget the refused URLs, because the rules changed: each is judged again when it is found again."""
        self._refused.clear()

    def add_redirected(self, link: Link, url: str) -> bool:
        """Add the target of a redirect in place of its link: at the same depth, and as a start if the link is one."""
        if not self.claim_url(url):
            return False
        self.put_back(Link(url, link.depth, link.is_start, via=(*link.via, link.url)))
        return True

    def add_sitemap(self, url: str, level: int) -> bool:
        """Add a sitemap, which is read before any page; its depth is the nesting level of sitemaps."""
        # The prefix makes the key different from the URL's own, because the same URL may be a page as well.
        if not self.claim_url(f"sitemap {url}"):
            return False
        self.put_back(Link(url, level, is_sitemap=True))
        return True

    def claim_url(self, url: str) -> bool:
        """Mark a URL as known that is about to be visited anyway; False when it is known already."""
        key = url_digest(url)
        if key in self._depth_by_digest:
            return False
        if len(self._depth_by_digest) >= self._max_urls:
            self._leave_out(key, FULL)
            return False
        self._depth_by_digest[key] = _POPPED
        return True

    def put_back(self, link: Link) -> None:
        """Put back a link that was popped and is to be visited later."""
        self._queue_link(link, link.url, 0 if link.is_start or link.is_sitemap else link.depth + 1)

    def pop_link(self, is_free: Callable[[str], bool]) -> Link | None:
        """Return the next link of the next host that may be asked."""
        for host in self._queued_by_host:
            if is_free(host):
                return self._pop_from_host(host)
        return None

    def note_ending(self, link: Link, how: Ending, size: int) -> None:
        """Note that a popped link will not come back; `size` is the number of bytes that were read of it."""

    def _leave_out(self, key: bytes, reason: str) -> None:
        """Count a refused URL; each is counted once, as long as there are at most MAX_REFUSED_URLS of them."""
        self.left_out[reason] += 1
        if reason == TOO_DEEP:
            # The URL may still be found nearer to the start.
            return
        if len(self._refused) >= MAX_REFUSED_URLS:
            self._refused.clear()
        self._refused.add(key)

    def _queue_link(self, entry: str | Link, url: str, rank: int) -> None:
        host = url_host(url)
        self._rank_queue(host, rank).append(entry)
        self._queued_by_host[host] = self._queued_by_host.get(host, 0) + 1
        self._count += 1

    def _rank_queue(self, host: str, rank: int) -> deque[str | Link]:
        ranks = self._links_by_host.setdefault(host, {})
        queue = ranks.get(rank)
        if queue is None:
            queue = ranks[rank] = deque()
        return queue

    def _pop_from_host(self, host: str) -> Link:
        ranks = self._links_by_host[host]
        while True:
            rank = min(ranks)
            waiting = ranks[rank]
            entry = waiting.popleft()
            if not waiting:
                del ranks[rank]
            if isinstance(entry, Link):
                break
            key = url_digest(entry)
            # A URL that moved forward is still in its old place as well.
            if self._depth_by_digest[key] == rank - 1:
                self._depth_by_digest[key] = _POPPED
                entry = Link(entry, rank - 1)
                break
        # The host goes to the end of the line: a large host must not keep small ones from their turn.
        self._count -= 1
        left = self._queued_by_host.pop(host) - 1
        if left:
            self._queued_by_host[host] = left
        else:
            del self._links_by_host[host]
        return entry
