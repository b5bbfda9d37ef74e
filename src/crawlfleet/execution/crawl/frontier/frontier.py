"""What is still to be visited: every URL once, hosts in turn, breadth first within a host, and bounded.

known     a digest of every URL that was ever taken in, with the depth it is queued at: sixteen bytes, however long
          the URL is
queued    by host, and there by rank: start URLs, what sitemaps list, then link by link away from them. A waiting
          URL is its text and nothing else; it becomes a Link when it is taken
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import Literal

from crawlfleet.execution.crawl.frontier.urls import site

KNOWN_URLS = 1_000_000
HOSTS_TOLD = 500
REFUSED_URLS = 100_000
FULL, TOO_DEEP = "no room", "too deep"
_TAKEN = -1


@dataclass(slots=True)
class Link:
    url: str
    depth: int
    is_start: bool = False
    tries: int = 0
    via: tuple[str, ...] = ()
    """The URLs that redirected here, the first one first."""
    is_sitemap: bool = False
    """A list of URLs, not a page."""
    chunk: int = 0
    """Of a crawl over many nodes: what it was leased with."""


Ending = Literal["read", "failed", "skipped", "moved"]
Refusal = Callable[[str], str | None]
"""Why a URL is not to be visited; asked about those that are new."""
Waiting = dict[int, "deque[str | Link]"]
"""Of a host: what waits, by rank."""


def digest(url: str) -> bytes:
    """What a URL is known by, wherever there are many of them."""
    return blake2b(url.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Frontier:
    def __init__(self, most: int = KNOWN_URLS) -> None:
        self._most = most
        self._known: dict[bytes, int] = {}
        self._hosts: dict[str, Waiting] = {}
        self._queued: dict[str, int] = {}
        self._count = 0
        # Apart from the known ones: links that lead elsewhere must not use up the room of pages.
        self._refused: set[bytes] = set()
        self.left_out: Counter[str] = Counter()
        """URLs that were found and are not to be visited, by reason."""
        self.is_open = False
        """More may come from elsewhere."""
        self.is_shared = False
        """Others visit what is found here: what they do with a URL is not known here."""

    def __len__(self) -> int:
        return self._count

    @property
    def known(self) -> int:
        return len(self._known)

    @property
    def dropped(self) -> int:
        """New URLs that found no room."""
        return self.left_out[FULL]

    def knows(self, url: str) -> bool:
        return digest(url) in self._known

    def queued(self) -> dict[str, int]:
        """How many links wait, by host; of some hosts, when there are many."""
        return dict(islice(self._queued.items(), HOSTS_TOLD))

    def add(
        self, url: str, depth: int, *, is_start: bool = False, is_named: bool = False, refusal: Refusal | None = None
    ) -> bool:
        """Takes a canonical URL in, unless it is known, there is no room, or `refusal` has a reason against it.

        One that is queued moves forward when it is found nearer to the start. One that is named, not just linked to,
        may have been refused before.
        """
        key = digest(url)
        at = self._known.get(key)
        if at is not None:
            if depth < at:
                self._known[key] = depth
                self._waiting(site(url), depth + 1).append(url)
            return False
        if not is_named and key in self._refused:
            return False
        reason = refusal(url) if refusal is not None else None
        if reason is None and len(self._known) >= self._most:
            reason = FULL
        if reason is not None:
            self._leave_out(key, reason)
            return False
        self._known[key] = depth
        self._put(Link(url, depth, is_start) if is_start else url, url, 0 if is_start else depth + 1)
        return True

    def reconsider(self) -> None:
        """Other URLs are to be visited from now on: what was refused is asked about again."""
        self._refused.clear()

    def add_redirected(self, link: Link, url: str) -> bool:
        """Takes in where a link leads to, in its place: as near to the start, and a start if it is one."""
        if not self.claim(url):
            return False
        self.put_back(Link(url, link.depth, link.is_start, via=(*link.via, link.url)))
        return True

    def add_sitemap(self, url: str, level: int) -> bool:
        """Takes in a list of URLs, to be read before any page; its depth is that of sitemaps in sitemaps."""
        # Under a name of its own: the same URL may be a page as well.
        if not self.claim(f"sitemap {url}"):
            return False
        self.put_back(Link(url, level, is_sitemap=True))
        return True

    def claim(self, url: str) -> bool:
        """Makes a URL known that is about to be visited anyway; False when it is already."""
        key = digest(url)
        if key in self._known:
            return False
        if len(self._known) >= self._most:
            self._leave_out(key, FULL)
            return False
        self._known[key] = _TAKEN
        return True

    def put_back(self, link: Link) -> None:
        """A link that was taken and is to be visited later."""
        self._put(link, link.url, 0 if link.is_start or link.is_sitemap else link.depth + 1)

    def take(self, is_free: Callable[[str], bool]) -> Link | None:
        """The next link of the next host that may be asked."""
        for host in self._queued:
            if is_free(host):
                return self._next(host)
        return None

    def ended(self, link: Link, how: Ending, size: int) -> None:
        """A link that was taken will not come back; `size` is what was read of it."""

    def _leave_out(self, key: bytes, reason: str) -> None:
        """Each is counted once, as long as there are not very many."""
        self.left_out[reason] += 1
        if reason == TOO_DEEP:
            # It may yet be found nearer to the start.
            return
        if len(self._refused) >= REFUSED_URLS:
            self._refused.clear()
        self._refused.add(key)

    def _put(self, one: str | Link, url: str, rank: int) -> None:
        host = site(url)
        self._waiting(host, rank).append(one)
        self._queued[host] = self._queued.get(host, 0) + 1
        self._count += 1

    def _waiting(self, host: str, rank: int) -> deque[str | Link]:
        ranks = self._hosts.setdefault(host, {})
        waiting = ranks.get(rank)
        if waiting is None:
            waiting = ranks[rank] = deque()
        return waiting

    def _next(self, host: str) -> Link:
        ranks = self._hosts[host]
        while True:
            rank = min(ranks)
            waiting = ranks[rank]
            one = waiting.popleft()
            if not waiting:
                del ranks[rank]
            if isinstance(one, Link):
                break
            key = digest(one)
            # One that moved forward is still in its old place, too.
            if self._known[key] == rank - 1:
                self._known[key] = _TAKEN
                one = Link(one, rank - 1)
                break
        # Behind the others: a large host must not keep small ones from their turn.
        self._count -= 1
        left = self._queued.pop(host) - 1
        if left:
            self._queued[host] = left
        else:
            del self._hosts[host]
        return one
