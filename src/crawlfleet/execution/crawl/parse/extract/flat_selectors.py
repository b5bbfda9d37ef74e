"""The flat form of selectors: `{"product": "div.product", "title": "h2.title", "price": "span.price"}`.

The selector whose matches contain the others is the container, and each of its matches is a record with the others as
fields and, as `url`, the first link in it. Without a container every selector gives a list.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from crawlfleet.execution.crawl.parse.extract.dom import Nearest, Tree, around, text_of, tidy
from crawlfleet.execution.crawl.parse.extract.field_counts import FILLED, MATCHES, RECORDS, Columns, column
from crawlfleet.execution.crawl.parse.extract.selectors import SelectorSet, is_xpath

_LINK = re.compile(r"^[^.#\[:]*\*|^[.#\[:]|^a(?![\w-])|>a(?![\w-])", re.IGNORECASE)
"""Pattern for the last step of a selector that may match a link itself: `a.card`, `.card`, `*`."""
LIST_VALUES = 1_000
"""Limit on values of one selector on one page without a container."""
Matches = Mapping[str, Sequence[Any]]


def matches(tree: Tree, selectors: SelectorSet) -> dict[str, list[Any]]:
    return {selector.name: tree.select(selector) for selector in selectors.selectors}


def container(tree: Tree, found: Matches) -> str | None:
    """Return the selector whose matches contain matches of all others that match at all; the first of several."""
    present = [name for name, its in found.items() if its]
    if len(present) < 2:
        return None
    owners: dict[Hashable, set[str]] = {}
    for name in present:
        for match in found[name]:
            if not isinstance(match, str):
                owners.setdefault(tree.key(match), set()).add(name)
    above = _Above(tree, owners)
    contents: dict[str, set[str]] = {name: set() for name in present}
    for name in present:
        for match in found[name]:
            for owner in above.names(around(tree, match)):
                contents[owner].add(name)
    return next((name for name in present if contents[name] >= set(present) - {name}), None)


def records(tree: Tree, selectors: SelectorSet, found: Matches, container: str) -> list[dict[str, Any]]:
    """Return one record per match of the container, in the order of the page."""
    fields = [name for name in found if name != container]
    elements = {tree.key(match): match for match in found[container] if not isinstance(match, str)}
    made: dict[Hashable, dict[str, Any]] = {key: dict.fromkeys(fields) for key in elements}
    nearest = Nearest(tree, elements)
    for name in fields:
        for match in found[name]:
            owner = nearest.key(around(tree, match))
            # The first match in the record counts, as the first link does.
            if owner is not None and made[owner][name] is None:
                made[owner][name] = text_of(tree, match)
    if "url" not in fields and made:
        _add_urls(tree, _links(tree, selectors, container), nearest, made)
    return list(made.values())


def _links(tree: Tree, selectors: SelectorSet, container: str) -> list[Any]:
    """Return at least the links that are in containers, or are one."""
    text = next(selector.text for selector in selectors.selectors if selector.name == container)
    is_link = _LINK.search(text.rpartition(" ")[2]) is not None
    if is_xpath(text) or "," in text or is_link:
        return tree.css("a[href]")
    # Most links of a page are in its menus: selecting those in containers saves the walk up from all others.
    return tree.css(f"{text} a[href]")


def _add_urls(tree: Tree, links: list[Any], nearest: Nearest, made: Mapping[Hashable, dict[str, Any]]) -> None:
    """Set `url` of each record to the href, as written, of the first link that is in its element, or is it."""
    for record in made.values():
        record["url"] = None
    for link in links:
        owner = nearest.key(link)
        while owner is not None and made[owner]["url"] is None:
            made[owner]["url"] = tree.attribute(link, "href")
            # This is the first link of the container around this one as well.
            owner = nearest.above(owner)


def lists(tree: Tree, found: Matches) -> dict[str, list[str]]:
    raw = tree.raw_text
    return {
        name: [tidy(match if isinstance(match, str) else raw(match)) for match in its[:LIST_VALUES]]
        for name, its in found.items()
    }


def count(counts: Columns, found: Matches, container: str | None, made: Sequence[Mapping[str, Any]]) -> None:
    for name, its in found.items():
        counted = column(counts, name)
        counted[MATCHES] += len(its)
        if container is not None:
            counted[RECORDS] += len(made)
            counted[FILLED] += len(made) if name == container else sum(record[name] is not None for record in made)


class _Above:
    """Finds which selectors match an element or one above it.

    It caches the way up, so that a deep page costs one walk, not many.
    """

    def __init__(self, tree: Tree, owners: Mapping[Hashable, set[str]]) -> None:
        self._tree = tree
        self._owners = owners
        self._known: dict[Hashable, frozenset[str]] = {}
        self._held: list[Any] = []

    def names(self, element: Any | None) -> frozenset[str]:
        path: list[Hashable] = []
        names: frozenset[str] = frozenset()
        while element is not None:
            key = self._tree.key(element)
            if key in self._known:
                names = self._known[key]
                break
            path.append(key)
            self._held.append(element)
            element = self._tree.parent(element)
        for key in reversed(path):
            if key in self._owners:
                names |= self._owners[key]
            self._known[key] = names
        return names
