"""What is still to be visited: breadth first within a host, hosts in turn, every URL once, and bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from crawlfleet.execution.crawl.links import site

KNOWN_URLS = 100_000
HOSTS_TOLD = 500


@dataclass(slots=True)
class Link:
    url: str
    depth: int
    is_start: bool = False
    tries: int = 0
    via: set[str] = field(default_factory=set)
    """Where its redirects led: claimed by this link, so that a second try may go there again."""


class Frontier:
    def __init__(self, most: int = KNOWN_URLS) -> None:
        self._most = most
        self._seen: set[str] = set()
        self._hosts: dict[str, deque[Link]] = {}
        self._waiting = 0
        self.dropped = 0
        """New URLs that found no room."""

    def __len__(self) -> int:
        return self._waiting

    def queued(self) -> dict[str, int]:
        """How many links wait, by host; of some hosts, when there are many."""
        return {host: len(waiting) for host, waiting in islice(self._hosts.items(), HOSTS_TOLD)}

    def add(self, url: str, depth: int, *, is_start: bool = False) -> bool:
        """Takes a canonical URL in, unless it is known or there is no room."""
        if not self.claim(url):
            return False
        self.put_back(Link(url, depth, is_start))
        return True

    def claim(self, url: str) -> bool:
        """Makes a URL known that is about to be visited anyway; False when it is already."""
        if url in self._seen:
            return False
        if len(self._seen) >= self._most:
            self.dropped += 1
            return False
        self._seen.add(url)
        return True

    def put_back(self, link: Link) -> None:
        self._hosts.setdefault(site(link.url), deque()).append(link)
        self._waiting += 1

    def take(self, is_free: Callable[[str], bool]) -> Link | None:
        """The next link of the next host that may be asked."""
        for host in self._hosts:
            if not is_free(host):
                continue
            waiting = self._hosts.pop(host)
            link = waiting.popleft()
            # Behind the others: a large host must not keep small ones from their turn.
            if waiting:
                self._hosts[host] = waiting
            self._waiting -= 1
            return link
        return None
