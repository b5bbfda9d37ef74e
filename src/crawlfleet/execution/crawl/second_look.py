"""What only some crawls ask a page: where its list goes on, and which links it asks not to follow."""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from crawlfleet.execution.crawl.links import canonical
from crawlfleet.execution.crawl.normalise import Normaliser
from crawlfleet.execution.crawl.pagination import Pagination

PAGE_CHARS = 256 << 10
"""A longer page is not looked at: that would hold up others."""
_DEEPER = " > ".join(["*"] * 101)


class Look(NamedTuple):
    next: tuple[str, ...] = ()
    nofollow: frozenset[str] = frozenset()
    """URLs that every link to them asks not to follow."""
    follows: bool = True
    """False when the page asks to follow none of its links."""


class SecondLook:
    def __init__(self, pagination: Pagination | None, normalise: Normaliser, *, obeys_nofollow: bool) -> None:
        self._pagination = pagination
        self._normalise = normalise
        self._obeys_nofollow = obeys_nofollow

    def is_due(self, body: bytes) -> bool:
        return self._pagination is not None or (self._obeys_nofollow and b"nofollow" in body.lower())

    def look(self, url: str, html: str) -> Look:
        if len(html) > PAGE_CHARS:
            return Look()
        tree = LexborHTMLParser(html)
        # Deeper than people write: selectors may cost anything there.
        if tree.css_first(_DEEPER) is not None:
            return Look()
        next_urls = self._pagination.after(url, html, tree) if self._pagination is not None else []
        if not self._obeys_nofollow:
            return Look(tuple(next_urls))
        robots = tree.css('meta[name="robots" i][content*="nofollow" i]')
        return Look(tuple(next_urls), self._refused(tree, url), follows=not robots)

    def _refused(self, tree: LexborHTMLParser, url: str) -> frozenset[str]:
        base = tree.css_first("base[href]")
        where = (canonical(base.attributes.get("href") or "", url) if base is not None else None) or url
        refused: set[str] = set()
        wanted: set[str] = set()
        for link in tree.css("a[href], area[href]"):
            rel = (link.attributes.get("rel") or "").lower().split()
            (refused if "nofollow" in rel else wanted).add(link.attributes.get("href") or "")
        found = (canonical(href, where) for href in refused - wanted)
        return frozenset(self._normalise(target) for target in found if target is not None)
