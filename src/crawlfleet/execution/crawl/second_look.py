"""What only some crawls ask a page: where its list goes on, and which links it asks not to follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser

from crawlfleet.execution.crawl.links import canonical
from crawlfleet.execution.crawl.normalise import Normaliser
from crawlfleet.execution.crawl.pagination import Pagination
from crawlfleet.execution.crawl.robots_tags import in_content, in_headers

PAGE_CHARS = 256 << 10
"""A longer page is not looked at: that would hold up others."""
_DEEPER = " > ".join(["*"] * 101)


class Look(NamedTuple):
    next: tuple[str, ...] = ()
    nofollow: frozenset[str] = frozenset()
    """URLs that every link to them asks not to follow."""
    follows: bool = True
    """False when the page asks to follow none of its links."""
    is_kept: bool = True
    """False when the page asks not to be kept."""


class SecondLook:
    def __init__(
        self,
        pagination: Pagination | None,
        normalise: Normaliser,
        *,
        obeys_nofollow: bool,
        obeys_noindex: bool = False,
        agent: str = "",
    ) -> None:
        self._pagination = pagination
        self._normalise = normalise
        self._obeys_nofollow = obeys_nofollow
        self._obeys_noindex = obeys_noindex
        self._agent = agent

    def is_due(self, body: bytes) -> bool:
        if self._pagination is not None:
            return True
        if not (self._obeys_nofollow or self._obeys_noindex):
            return False
        lower = body.lower()
        return b"nofollow" in lower or b"noindex" in lower or (b"none" in lower and b"robots" in lower)

    def heed(self, look: Look, headers: Iterable[str]) -> Look:
        """What the answer's X-Robots-Tag headers say on top."""
        return self._heed(look, in_headers(headers, self._agent))

    def _heed(self, look: Look, directives: Collection[str]) -> Look:
        return look._replace(
            follows=look.follows and not (self._obeys_nofollow and "nofollow" in directives),
            is_kept=look.is_kept and not (self._obeys_noindex and "noindex" in directives),
        )

    def look(self, url: str, html: str) -> Look:
        if len(html) > PAGE_CHARS:
            return Look()
        tree = LexborHTMLParser(html)
        # Deeper than people write: selectors may cost anything there.
        if tree.css_first(_DEEPER) is not None:
            return Look()
        next_urls = self._pagination.after(url, html, tree) if self._pagination is not None else []
        metas = tree.css('meta[name="robots" i][content]')
        directives = in_content(meta.attributes.get("content") or "" for meta in metas)
        refused = self._refused(tree, url) if self._obeys_nofollow else frozenset[str]()
        return self._heed(Look(tuple(next_urls), refused), directives)

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
