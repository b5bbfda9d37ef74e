"""The flat form of selectors: `{"product": "div.product", "title": "h2.title", "price": "span.price"}`.

The selector whose matches contain the others is the container, and each of its matches is a record with the others
as fields and, as `url`, the first link in it. Without a container every selector gives a list.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from crawlfleet.execution.crawl.extract.counts import FILLED, MATCHES, RECORDS, Columns, column
from crawlfleet.execution.crawl.extract.selectors import SelectorSet
from crawlfleet.execution.crawl.extract.trees import Match, Nearest, Tree, around, text_of

LIST_VALUES = 1_000
"""Of one selector and page, where there is no container."""
Matches = Mapping[str, Sequence[Match]]


def matches(tree: Tree, selectors: SelectorSet) -> dict[str, list[Match]]:
    return {selector.name: tree.select(selector) for selector in selectors.selectors}


def container(tree: Tree, found: Matches) -> str | None:
    """The selector that has all others with any match inside its own; the first one named, should several."""
    present = [name for name, its in found.items() if its]
    if len(present) < 2:
        return None
    owners: dict[Hashable, set[str]] = {}
    for name in present:
        for match in found[name]:
            if match.value is None:
                owners.setdefault(tree.key(match.element), set()).add(name)
    above = _Above(tree, owners)
    contents: dict[str, set[str]] = {name: set() for name in present}
    for name in present:
        for match in found[name]:
            for owner in above.names(around(tree, match)):
                contents[owner].add(name)
    return next((name for name in present if contents[name] >= set(present) - {name}), None)


def records(tree: Tree, found: Matches, container: str) -> list[dict[str, Any]]:
    """One record per match of the container, in the order of the page."""
    fields = [name for name in found if name != container]
    elements = {tree.key(match.element): match.element for match in found[container] if match.value is None}
    made: dict[Hashable, dict[str, Any]] = {key: dict.fromkeys(fields) for key in elements}
    nearest = Nearest(tree, elements)
    for name in fields:
        for match in found[name]:
            owner = nearest.key(around(tree, match))
            # The first in the record counts, as the first link does.
            if owner is not None and made[owner][name] is None:
                made[owner][name] = text_of(tree, match)
    if "url" not in fields and made:
        _add_urls(tree, nearest, made)
    return list(made.values())


def _add_urls(tree: Tree, nearest: Nearest, made: Mapping[Hashable, dict[str, Any]]) -> None:
    """As it is written, of the first link that is in an element, or is it."""
    for record in made.values():
        record["url"] = None
    for link in tree.css("a[href]"):
        owner = nearest.key(link)
        while owner is not None and made[owner]["url"] is None:
            made[owner]["url"] = tree.attribute(link, "href")
            # A container around this one has its first link here as well.
            owner = nearest.above(owner)


def lists(tree: Tree, found: Matches) -> dict[str, list[str]]:
    return {name: [text_of(tree, match) for match in its[:LIST_VALUES]] for name, its in found.items()}


def count(counts: Columns, found: Matches, container: str | None, made: Sequence[Mapping[str, Any]]) -> None:
    for name, its in found.items():
        counted = column(counts, name)
        counted[MATCHES] += len(its)
        if container is not None:
            counted[RECORDS] += len(made)
            counted[FILLED] += len(made) if name == container else sum(record[name] is not None for record in made)


class _Above:
    """Which selectors match an element or one above it. Remembers, so that a deep page costs one walk, not many."""

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
