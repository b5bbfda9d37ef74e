"""The link cache recognises hrefs seen before with one lookup: most links of a site are on every page of it.

A raw href means the same on every page of an origin when it starts at the root or names its host, and on every page of
a directory otherwise. So it is looked up as it is written; only a new href is resolved to a URL. The cache stores the
depth at which it was seen, because on a page nearer to the start it may lead further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import filterfalse

from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from crawlfleet.execution.crawl.frontier.urls import PAGE_LINKS, URL_CHARS, canonical_url

MEMORY_BYTES = 16 << 20
ENTRY_BYTES = 150
"""Memory that a cached href takes besides its own characters."""
_NEVER = 1 << 30
_ABSOLUTE = ("/", "http://", "https://")
# Characters that every URL parser leaves as they are, in paths and in queries.
_SAFE = r"[A-Za-z0-9\-._~!$&()*+,;=@/%]"
_ROOTED = re.compile(rf"/(?!/)[:{_SAFE[1:]}*(?:\?[:?{_SAFE[1:]}*)?")
_NEARBY = re.compile(rf"[A-Za-z0-9_~]{_SAFE}*(?:\?[:?{_SAFE[1:]}*)?")


class LinkCache:
    def __init__(self, normalise: Normaliser | None = None, *, max_bytes: int = MEMORY_BYTES) -> None:
        self._normalise = normalise or Normaliser()
        self._max_bytes = max_bytes
        self._free_bytes = max_bytes
        self._deepest = 0
        self._origins: dict[str, dict[str, int]] = {}
        self._directories: dict[str, dict[str, int]] = {}

    def clear(self) -> None:
        """Clear the cache, so that all hrefs count as new: the rules changed, or the cache is full."""
        self._origins.clear()
        self._directories.clear()
        self._free_bytes = self._max_bytes

    def new_urls(self, hrefs: Iterable[str], base: str, depth: int) -> list[str]:
        """Return the URLs of those hrefs of a page that were not seen at this depth or a smaller one; each once."""
        if self._free_bytes < 0:
            self.clear()
        origin = base[: base.index("/", 8)]
        rooted = self._origins.get(origin)
        if rooted is None:
            rooted = self._origins[origin] = {}
            self._free_bytes -= len(origin) + ENTRY_BYTES
        if depth >= self._deepest:
            # This is the usual case, because pages come in the order of their depth: all hrefs seen before can be left
            # out.
            unseen = list(dict.fromkeys(filterfalse(rooted.__contains__, hrefs)))
        else:
            unseen = [href for href in dict.fromkeys(hrefs) if rooted.get(href, _NEVER) > depth]
        return self._resolve_hrefs(unseen[:PAGE_LINKS], base, origin, rooted, depth) if unseen else []

    def _resolve_hrefs(self, hrefs: list[str], base: str, origin: str, rooted: dict[str, int], depth: int) -> list[str]:
        self._deepest = max(self._deepest, depth)
        directory = base.partition("?")[0].rpartition("/")[0] + "/"
        nearby = self._directories.get(directory)
        urls: dict[str, None] = {}
        for href in hrefs:
            if href.startswith(_ABSOLUTE):
                cache = rooted
            elif href[:1] <= " " or href[0] in "?#":
                # These depend on the page itself: white space in front may hide a "?".
                if (url := self._resolve_href(href, base, origin, directory)) is not None and href[:1] not in {"", "#"}:
                    urls[url] = None
                continue
            else:
                if nearby is None:
                    nearby = self._directories[directory] = {}
                    self._free_bytes -= len(directory) + ENTRY_BYTES
                cache = nearby
                if cache.get(href, _NEVER) <= depth:
                    continue
            cache[href] = depth
            self._free_bytes -= len(href) + ENTRY_BYTES
            if (url := self._resolve_href(href, base, origin, directory)) is not None:
                urls[url] = None
        return list(urls)

    def _resolve_href(self, href: str, base: str, origin: str, directory: str) -> str | None:
        bare = href.partition("#")[0]
        if bare.startswith(origin) and bare[len(origin) : len(origin) + 1] == "/":
            bare = bare[len(origin) :]
        url: str | None
        # Most hrefs are plain; parsing them as a browser would changes nothing and costs ten times as much.
        if "/." in bare or "%2" in bare or len(bare) > URL_CHARS // 2:
            url = canonical_url(href, base)
        elif _ROOTED.fullmatch(bare):
            url = origin + bare
        elif _NEARBY.fullmatch(bare):
            url = directory + bare
        else:
            url = canonical_url(href, base)
        if url is None or len(url) > URL_CHARS:
            return None
        return self._normalise(url)
