"""Metadata of a page from its head: description, author, dates, language."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.crawl.parse.extract.dates import date_of
from crawlfleet.execution.crawl.parse.extract.dom import Tree, tidy
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks
from crawlfleet.execution.crawl.parse.extract.structured import open_graph
from crawlfleet.execution.crawl.parse.extract.values import absolute

_NAMES = {
    "description": ("description", "og:description", "twitter:description", "dc.description"),
    "author": ("author", "article:author", "dc.creator"),
    "published": ("article:published_time", "date", "dc.date", "pubdate", "datepublished"),
    "modified": ("article:modified_time", "last-modified", "og:updated_time"),
    "site": ("og:site_name", "application-name"),
    "image": ("og:image", "twitter:image"),
    "keywords": ("keywords",),
    "generator": ("generator",),
}
_DATES = frozenset({"published", "modified"})


def language(tree: Tree) -> str | None:
    for element in tree.css("html")[:1]:
        if said := tree.attribute(element, "lang") or tree.attribute(element, "xml:lang"):
            return said.strip() or None
    for meta in tree.css('meta[http-equiv="content-language" i][content], meta[property="og:locale"][content]'):
        return (tree.attribute(meta, "content") or "").strip().replace("_", "-") or None
    return None


def metadata(tree: Tree, links: PageLinks, base: str) -> dict[str, Any]:
    """Return the metadata that the page has; absent values have no key."""
    said = {key.lower(): value for key, value in open_graph(tree).items()}
    for meta in tree.css("meta[name][content]"):
        said.setdefault((tree.attribute(meta, "name") or "").lower(), tidy(tree.attribute(meta, "content") or ""))
    found: dict[str, Any] = {}
    for name, keys in _NAMES.items():
        value = next((said[key] for key in keys if said.get(key)), None)
        first = value[0] if isinstance(value, list) else value
        if first:
            found[name] = (date_of(first) or first) if name in _DATES else first
    if links.canonical:
        found["canonical"] = absolute(links.canonical, base) or links.canonical
    if links.robots:
        found["robots"] = sorted(links.robots)
    return found
