"""Links of a page as they are written there; the code that follows them resolves them to URLs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from crawlfleet.execution.crawl.fetch.robots_tags import directives_in_content
from crawlfleet.execution.crawl.parse.extract.dom import Dom

MAX_LINKS = 100_000
_ANCHORS = frozenset({"a", "area"})
_ROBOTS = frozenset({"robots", "crawlfleet"})


class PageLinks(msgspec.Struct):
    hrefs: list[str] = []
    """Hrefs of a and area elements, each once, in the order of the page."""
    nofollow: frozenset[str] = frozenset()
    """Hrefs that every link to them asks not to follow."""
    frames: list[str] = []
    base: str | None = None
    refresh: str | None = None
    canonical: str | None = None
    next: str | None = None
    robots: frozenset[str] = frozenset()
    """Directives for robots from the page's meta tags and headers: noindex, nofollow."""
    unread: int = 0
    """Number of links beyond the limit on links that are read of one page."""

    @property
    def may_follow(self) -> bool:
        return "nofollow" not in self.robots

    @property
    def may_keep(self) -> bool:
        return "noindex" not in self.robots


def extract_page_links(dom: Dom) -> PageLinks:
    links = _collect_links(dom)
    # A frameset page has no other links.
    frames = dom.elements_by_tag("iframe") or ([] if links.hrefs else dom.elements_by_tag("frame"))
    links.frames = [src for frame in frames if (src := dom.get_attribute(frame, "src"))]
    for meta in dom.select_in_head("meta[http-equiv], meta[name]"):
        content = dom.get_attribute(meta, "content") or ""
        if (dom.get_attribute(meta, "http-equiv") or "").lower() == "refresh":
            links.refresh = links.refresh or _refresh_target(content)
        if (dom.get_attribute(meta, "name") or "").lower() in _ROBOTS:
            links.robots |= directives_in_content([content])
    return links


def _collect_links(dom: Dom) -> PageLinks:
    """Collect all elements with a href in one pass: every further selector would cost as much again."""
    hrefs: dict[str | None, bool] = {}
    """Whether some link to the href may be followed, per href."""
    links = PageLinks()
    has_nofollow = False
    elements, links.unread = dom.linked_elements(MAX_LINKS)
    for tag, attributes in elements:
        # The `xlink:href` of an SVG image matches the selector, and has another name here.
        href = attributes.get("href")
        if tag not in _ANCHORS:
            if href:
                _note_link(tag, href, attributes, links)
        elif "rel" in attributes:
            rel = (attributes["rel"] or "").lower().split()
            if "nofollow" in rel:
                has_nofollow = True
                hrefs.setdefault(href, False)
            else:
                hrefs[href] = True
            if "next" in rel and links.next is None and href and href[0] != "#":
                links.next = href
        else:
            hrefs[href] = True
    # Links to a fragment of the page itself are left out.
    links.hrefs = [href for href in hrefs if href and href[0] != "#"]
    if has_nofollow:
        links.nofollow = frozenset(href for href in links.hrefs if not hrefs[href])
    return links


def _note_link(tag: str, href: str, attributes: Mapping[str, str | None], links: PageLinks) -> None:
    if tag == "base":
        links.base = links.base or href
    elif tag == "link":
        rel = (attributes.get("rel") or "").lower().split()
        if "canonical" in rel:
            links.canonical = links.canonical or href
        if "next" in rel:
            links.next = links.next or href


def _refresh_target(refresh: str) -> str | None:
    """Return the target of a refresh such as `5; url='/next'`."""
    _, mark, rest = refresh.replace(",", ";", 1).partition(";")
    name, equals, target = rest.partition("=")
    if not mark or not equals or name.strip().lower() != "url":
        return None
    return target.strip().strip("\"'") or None
