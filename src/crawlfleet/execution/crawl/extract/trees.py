"""A page as a tree, in two readings with one face: lexbor for CSS (fast), libxml2 where XPath is asked for."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from cssselect import HTMLTranslator
from lxml import etree  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlfleet.execution.crawl.extract.selectors import Selector

TEXT_CHARS = 10_000
HTML_CHARS = 100_000
DEEP = 100
"""Levels; pages of people have twenty."""
_DEEPER = " > ".join(["*"] * (DEEP + 1))


class Match(NamedTuple):
    element: Any
    value: str | None = None
    """What XPath found in the element, if not the element itself."""


class Tree(Protocol):
    def select(self, selector: Selector) -> list[Match]: ...

    def select_in(self, selector: Selector, element: Any | None) -> list[Match]:
        """An XPath as seen from an element; from the top where there is none."""
        ...

    def css(self, text: str) -> list[Any]:
        """Elements by a selector of ours."""
        ...

    def key(self, element: Any) -> Hashable: ...

    def parent(self, element: Any) -> Any | None: ...

    def tag(self, element: Any) -> str: ...

    def attribute(self, element: Any, name: str) -> str | None: ...

    def raw_text(self, element: Any) -> str: ...

    def html(self, element: Any) -> str: ...


def tidy(text: str, most: int = TEXT_CHARS) -> str:
    if len(text) > most:
        text = text[: 4 * most]
    # No store of text takes NUL, and no reader of it misses one.
    return " ".join((text.replace("\0", "") if "\0" in text else text).split())[:most]


def text_of(tree: Tree, match: Match) -> str:
    return tidy(match.value if match.value is not None else tree.raw_text(match.element))


def around(tree: Tree, match: Match) -> Any | None:
    """The innermost element that a match is inside of."""
    if match.element is None:
        return None
    return tree.parent(match.element) if match.value is None else match.element


def title(tree: Tree) -> str | None:
    # Of the page: drawings (SVG) have titles, too.
    found = tree.css("head > title") or tree.css("title")
    return tidy(tree.raw_text(found[0])) if found else None


class LexborTree:
    def __init__(self, html: str) -> None:
        self._html = LexborHTMLParser(html)

    @property
    def is_deep(self) -> bool:
        return self._html.css_first(_DEEPER) is not None

    def select(self, selector: Selector) -> list[Match]:
        return [Match(node) for node in self._html.css(selector.text)]

    def select_in(self, selector: Selector, element: Any | None) -> list[Match]:
        raise TypeError(f"{selector.text} is no CSS selector")

    def css(self, text: str) -> list[Any]:
        return self._html.css(text)

    def key(self, element: LexborNode) -> Hashable:
        return element.mem_id

    def parent(self, element: LexborNode) -> LexborNode | None:
        return element.parent

    def tag(self, element: LexborNode) -> str:
        return element.tag or ""

    def attribute(self, element: LexborNode, name: str) -> str | None:
        attributes = element.attributes
        # `<a href>` has the attribute, with nothing in it.
        return (attributes[name] or "") if name in attributes else None

    def raw_text(self, element: LexborNode) -> str:
        return element.text()

    def html(self, element: LexborNode) -> str:
        return (element.html or "")[:HTML_CHARS]


class XPathTree:
    def __init__(self, html: str) -> None:
        # libxml2 stops at 256 levels of its own accord, unless told that huge trees are fine.
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        root = etree.fromstring(html.replace("\0", "").encode("utf-8", "replace") or b"<html/>", parser)
        self._root = etree.Element("html") if root is None else root

    def select(self, selector: Selector) -> list[Match]:
        return self.select_in(selector, None)

    def select_in(self, selector: Selector, element: Any | None) -> list[Match]:
        found = selector.xpath(self._root if element is None else element)
        if not isinstance(found, list):
            # count(), string() and the like: a value of the whole.
            return [Match(element, _shown(found))] if found != "" else []
        return [_match(one) for one in found if not isinstance(one, tuple)]

    def css(self, text: str) -> list[Any]:
        return list(_translated(text)(self._root))

    def key(self, element: Any) -> Hashable:
        # lxml keeps one object per element while somebody holds it, and matches hold theirs.
        return element  # type: ignore[no-any-return]

    def parent(self, element: Any) -> Any | None:
        return element.getparent()

    def tag(self, element: Any) -> str:
        return element.tag if isinstance(element.tag, str) else ""

    def attribute(self, element: Any, name: str) -> str | None:
        value = element.get(name)
        return None if value is None else str(value)

    def raw_text(self, element: Any) -> str:
        return "".join(element.itertext(with_tail=False))

    def html(self, element: Any) -> str:
        made: str = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
        return made[:HTML_CHARS]


def _match(found: Any) -> Match:
    if not isinstance(found, str):
        return Match(found)
    element = found.getparent()  # type: ignore[attr-defined]
    if getattr(found, "is_tail", False) and element is not None:
        element = element.getparent()
    return Match(element, str(found))


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=64)
def _translated(text: str) -> Any:
    return etree.XPath(HTMLTranslator().css_to_xpath(text))


class Nearest:
    """Which of some elements an element is, or is in. Remembers, so that a deep page costs one walk, not many."""

    def __init__(self, tree: Tree, elements: Mapping[Hashable, Any]) -> None:
        self._tree = tree
        self._elements = elements
        self._known: dict[Hashable, Hashable | None] = {}
        self._held: list[Any] = []

    def key(self, element: Any | None) -> Hashable | None:
        tree, keys, known = self._tree, self._elements, self._known
        path: list[Hashable] = []
        nearest: Hashable | None = None
        while element is not None:
            key = tree.key(element)
            if key in keys:
                nearest = key
                break
            if key in known:
                nearest = known[key]
                break
            path.append(key)
            # Held, as a key is one's own only for as long as its element is there.
            self._held.append(element)
            element = tree.parent(element)
        for key in path:
            known[key] = nearest
        return nearest

    def above(self, key: Hashable) -> Hashable | None:
        """The next one that has it inside."""
        return self.key(self._tree.parent(self._elements[key]))
