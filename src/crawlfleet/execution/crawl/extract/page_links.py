"""Where a page leads, as it is written there: to make addresses of it is for whoever follows them."""

from __future__ import annotations

from itertools import islice

import msgspec

from crawlfleet.execution.crawl.extract.trees import Tree

LINKS_MOST = 20_000
_HEAD = "base[href], link[rel][href], meta[http-equiv], meta[name], frame[src], iframe[src]"
_ROBOTS = frozenset({"robots", "crawlfleet"})


class PageLinks(msgspec.Struct):
    hrefs: list[str]
    """Of a and area, each once, in the order of the page."""
    nofollow: frozenset[str] = frozenset()
    """Those of the hrefs that every link to them asks not to follow."""
    frames: list[str] = []
    base: str | None = None
    refresh: str | None = None
    canonical: str | None = None
    next: str | None = None
    robots: frozenset[str] = frozenset()
    """What the robots meta says: noindex, nofollow, none."""

    @property
    def may_follow(self) -> bool:
        return self.robots.isdisjoint({"nofollow", "none"})


def page_links(tree: Tree, html: str) -> PageLinks:
    links = PageLinks(hrefs=_hrefs(tree))
    # Looking for the word in the text costs less than asking every link for it.
    if "nofollow" in html or "NOFOLLOW" in html:
        links.nofollow = _nofollow(tree)
    for element in tree.css(_HEAD):
        _note(tree, element, links)
    if links.next is None and ('rel="next' in html or "rel='next" in html or "rel=next" in html):
        links.next = next((tree.attribute(link, "href") for link in tree.css('a[rel~="next"][href]')), None)
    return links


def _hrefs(tree: Tree) -> list[str]:
    attribute = tree.attribute
    # Pages repeat their links, and links to a place in the page are none.
    found = dict.fromkeys(attribute(link, "href") for link in islice(tree.css("a[href], area[href]"), LINKS_MOST))
    return [href for href in found if href and href[0] != "#"]


def _nofollow(tree: Tree) -> frozenset[str]:
    refused: set[str] = set()
    wanted: set[str] = set()
    for link in islice(tree.css("a[href], area[href]"), LINKS_MOST):
        rel = (tree.attribute(link, "rel") or "").lower().split()
        (refused if "nofollow" in rel else wanted).add(tree.attribute(link, "href") or "")
    return frozenset(refused - wanted)


def _note(tree: Tree, element: object, links: PageLinks) -> None:
    match tree.tag(element):
        case "base":
            links.base = links.base or tree.attribute(element, "href")
        case "link":
            rel = (tree.attribute(element, "rel") or "").lower().split()
            if "canonical" in rel:
                links.canonical = links.canonical or tree.attribute(element, "href")
            if "next" in rel:
                links.next = links.next or tree.attribute(element, "href")
        case "frame" | "iframe":
            links.frames.append(tree.attribute(element, "src") or "")
        case "meta":
            said = tree.attribute(element, "content") or ""
            if (tree.attribute(element, "http-equiv") or "").lower() == "refresh":
                links.refresh = links.refresh or _target(said)
            if (tree.attribute(element, "name") or "").lower() in _ROBOTS:
                links.robots |= {word.strip().lower() for word in said.split(",")}
        case _:
            pass


def _target(refresh: str) -> str | None:
    """Of `5; url='/next'`."""
    _, mark, rest = refresh.replace(",", ";", 1).partition(";")
    name, equals, target = rest.partition("=")
    if not mark or not equals or name.strip().lower() != "url":
        return None
    return target.strip().strip("\"'") or None
