"""The flat form of selectors: `{"product": "div.product", "title": "h2.title", "price": "span.price"}`.

The selector whose matches contain the others is the container, and each of its matches is a record with the others as
fields and, as `url`, the first link in it. Without a container every selector gives a list.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import Dom, NearestElements, enclosing_element, match_text, tidy_text
from crawlfleet.execution.crawl.parse.extract.field_counts import FILLED, MATCHES, RECORDS, FieldCounts, path_counts
from crawlfleet.execution.crawl.parse.extract.selectors import SelectorSet, is_xpath

_LINK = re.compile(r"^[^.#\[:]*\*|^[.#\[:]|^a(?![\w-])|>a(?![\w-])", re.IGNORECASE)
"""Pattern for the last step of a selector that may match a link itself: `a.card`, `.card`, `*`."""
MAX_LIST_VALUES = 1_000
"""Limit on values of one selector on one page without a container."""
Matches = Mapping[str, Sequence[Any]]


def match_selectors(dom: Dom, selectors: SelectorSet) -> dict[str, list[Any]]:
    return {selector.name: dom.select_matches(selector) for selector in selectors.selectors}


def find_container(dom: Dom, matches: Matches) -> str | None:
    """Return the selector whose matches contain matches of all others that match at all; the first of several."""
    present = [name for name, values in matches.items() if values]
    if len(present) < 2:
        return None
    owners: dict[Hashable, set[str]] = {}
    for name in present:
        for match in matches[name]:
            if not isinstance(match, str):
                owners.setdefault(dom.element_key(match), set()).add(name)
    above = _OwnersAbove(dom, owners)
    contents: dict[str, set[str]] = {name: set() for name in present}
    for name in present:
        for match in matches[name]:
            for owner in above.owner_names(enclosing_element(dom, match)):
                contents[owner].add(name)
    return next((name for name in present if contents[name] >= set(present) - {name}), None)


def build_records(dom: Dom, selectors: SelectorSet, matches: Matches, container: str) -> list[dict[str, Any]]:
    """Return one record per match of the container, in the order of the page."""
    fields = [name for name in matches if name != container]
    elements = {dom.element_key(match): match for match in matches[container] if not isinstance(match, str)}
    records: dict[Hashable, dict[str, Any]] = {key: dict.fromkeys(fields) for key in elements}
    nearest = NearestElements(dom, elements)
    for name in fields:
        for match in matches[name]:
            owner = nearest.nearest_key(enclosing_element(dom, match))
            # The first match in the record counts, as the first link does.
            if owner is not None and records[owner][name] is None:
                records[owner][name] = match_text(dom, match)
    if "url" not in fields and records:
        _add_urls(dom, _container_links(dom, selectors, container), nearest, records)
    return list(records.values())


def _container_links(dom: Dom, selectors: SelectorSet, container: str) -> list[Any]:
    """Return at least the links that are in containers, or are one."""
    text = next(selector.text for selector in selectors.selectors if selector.name == container)
    is_link = _LINK.search(text.rpartition(" ")[2]) is not None
    if is_xpath(text) or "," in text or is_link:
        return dom.select_css("a[href]")
    # Most links of a page are in its menus: selecting those in containers saves the walk up from all others.
    return dom.select_css(f"{text} a[href]")


def _add_urls(dom: Dom, links: list[Any], nearest: NearestElements, records: Mapping[Hashable, dict[str, Any]]) -> None:
    """Set `url` of each record to the href, as written, of the first link that is in its element, or is it."""
    for record in records.values():
        record["url"] = None
    for link in links:
        owner = nearest.nearest_key(link)
        while owner is not None and records[owner]["url"] is None:
            records[owner]["url"] = dom.get_attribute(link, "href")
            # This is the first link of the container around this one as well.
            owner = nearest.enclosing_key(owner)


def build_lists(dom: Dom, matches: Matches) -> dict[str, list[str]]:
    raw_text = dom.raw_text
    return {
        name: [tidy_text(match if isinstance(match, str) else raw_text(match)) for match in values[:MAX_LIST_VALUES]]
        for name, values in matches.items()
    }


def count_matches(
    counts: FieldCounts, matches: Matches, container: str | None, records: Sequence[Mapping[str, Any]]
) -> None:
    for name, values in matches.items():
        field_counts = path_counts(counts, name)
        field_counts[MATCHES] += len(values)
        if container is not None:
            field_counts[RECORDS] += len(records)
            field_counts[FILLED] += (
                len(records) if name == container else sum(record[name] is not None for record in records)
            )


class _OwnersAbove:
    """Finds which selectors match an element or one above it.

    It caches the way up, so that a deep page costs one walk, not many.
    """

    def __init__(self, dom: Dom, owners: Mapping[Hashable, set[str]]) -> None:
        self._dom = dom
        self._owners = owners
        self._cached_names: dict[Hashable, frozenset[str]] = {}
        self._referenced: list[Any] = []

    def owner_names(self, element: Any | None) -> frozenset[str]:
        path: list[Hashable] = []
        names: frozenset[str] = frozenset()
        while element is not None:
            key = self._dom.element_key(element)
            if key in self._cached_names:
                names = self._cached_names[key]
                break
            path.append(key)
            self._referenced.append(element)
            element = self._dom.parent_element(element)
        for key in reversed(path):
            if key in self._owners:
                names |= self._owners[key]
            self._cached_names[key] = names
        return names
