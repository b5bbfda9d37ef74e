"""Metadata of a page from its head: description, author, dates, language."""

from __future__ import annotations

from typing import Any

from crawlfleet.execution.crawl.parse.extract.dates import parse_date
from crawlfleet.execution.crawl.parse.extract.dom import Dom, tidy_text
from crawlfleet.execution.crawl.parse.extract.page_links import PageLinks
from crawlfleet.execution.crawl.parse.extract.structured import extract_open_graph
from crawlfleet.execution.crawl.parse.extract.values import absolute_url

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


def page_language(dom: Dom) -> str | None:
    for element in dom.select_css("html")[:1]:
        if value := dom.get_attribute(element, "lang") or dom.get_attribute(element, "xml:lang"):
            return value.strip() or None
    for meta in dom.select_css('meta[http-equiv="content-language" i][content], meta[property="og:locale"][content]'):
        return (dom.get_attribute(meta, "content") or "").strip().replace("_", "-") or None
    return None


def page_metadata(dom: Dom, links: PageLinks, base: str) -> dict[str, Any]:
    """Return the metadata that the page has; absent values have no key."""
    tags = {key.lower(): value for key, value in extract_open_graph(dom).items()}
    for meta in dom.select_css("meta[name][content]"):
        tags.setdefault(
            (dom.get_attribute(meta, "name") or "").lower(), tidy_text(dom.get_attribute(meta, "content") or "")
        )
    metadata: dict[str, Any] = {}
    for name, keys in _NAMES.items():
        value = next((tags[key] for key in keys if tags.get(key)), None)
        first = value[0] if isinstance(value, list) else value
        if first:
            metadata[name] = (parse_date(first) or first) if name in _DATES else first
    if links.canonical:
        metadata["canonical"] = absolute_url(links.canonical, base) or links.canonical
    if links.robots:
        metadata["robots"] = sorted(links.robots)
    return metadata
