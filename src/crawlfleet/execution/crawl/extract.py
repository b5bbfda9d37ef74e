"""The flat form of selectors: `{"product": "div.product", "title": "h2.title", "price": "span.price"}`.

The selector whose matches contain the others is the container, and each of its matches is a record with the others
as fields and, as `url`, the first link in it. Without a container every selector gives a list.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from crawlfleet.execution.crawl.selectors import SelectorSet
from crawlfleet.execution.crawl.trees import Match, Tree

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
            for owner in above.names(_around(tree, match)):
                contents[owner].add(name)
    return next((name for name in present if contents[name] >= set(present) - {name}), None)


def records(tree: Tree, found: Matches, container: str) -> list[dict[str, Any]]:
    """One record per match of the container, in the order of the page."""
    fields = [name for name in found if name != container]
    made: dict[Hashable, dict[str, Any]] = {}
    for match in found[container]:
        if match.value is None:
            record: dict[str, Any] = dict.fromkeys(fields)
            record.setdefault("url", tree.first_href(match.element))
            made.setdefault(tree.key(match.element), record)
    nearest = _Nearest(tree, set(made))
    for name in fields:
        for match in found[name]:
            owner = nearest.key(_around(tree, match))
            # The first in the record counts, as the first link does.
            if owner is not None and made[owner][name] is None:
                made[owner][name] = tree.text(match)
    return list(made.values())


def lists(tree: Tree, found: Matches) -> dict[str, list[str]]:
    return {name: [tree.text(match) for match in its[:LIST_VALUES]] for name, its in found.items()}


def _around(tree: Tree, match: Match) -> Any | None:
    """The innermost element that a match is inside of."""
    if match.element is None:
        return None
    return tree.parent(match.element) if match.value is None else match.element


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


class _Nearest:
    """Which of some elements an element is in, or is."""

    def __init__(self, tree: Tree, keys: set[Hashable]) -> None:
        self._tree = tree
        self._keys = keys
        self._known: dict[Hashable, Hashable | None] = {}
        self._held: list[Any] = []

    def key(self, element: Any | None) -> Hashable | None:
        path: list[Hashable] = []
        nearest: Hashable | None = None
        while element is not None:
            key = self._tree.key(element)
            if key in self._known:
                nearest = self._known[key]
                break
            path.append(key)
            self._held.append(element)
            if key in self._keys:
                nearest = key
                break
            element = self._tree.parent(element)
        for key in path:
            self._known[key] = nearest
        return nearest
