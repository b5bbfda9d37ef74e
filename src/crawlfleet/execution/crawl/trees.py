"""A page as a tree, in two readings with one face: lexbor for CSS (fast), libxml2 where XPath is asked for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, Protocol

from lxml import etree  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawlfleet.execution.crawl.selectors import Selector

TEXT_CHARS = 10_000
DEEP = 100
"""Levels; pages of people have twenty."""
_DEEPER = " > ".join(["*"] * (DEEP + 1))
_XPATH_LINKS = etree.XPath("//a/@href | //area/@href")


class Match(NamedTuple):
    element: Any
    value: str | None = None
    """What XPath found in the element, if not the element itself."""


class Tree(Protocol):
    def select(self, selector: Selector) -> list[Match]: ...

    def key(self, element: Any) -> Hashable: ...

    def parent(self, element: Any) -> Any | None: ...

    def text(self, match: Match) -> str: ...

    def first_href(self, element: Any) -> str | None:
        """As it is written, of the first link in an element (or of the element, if it is one)."""
        ...

    def hrefs(self) -> Iterable[str | None]: ...

    def base_href(self) -> str | None: ...

    def title(self) -> str | None: ...


def tidy(text: str) -> str:
    # No store of text takes NUL, and no reader of it misses one.
    return " ".join(text[: 4 * TEXT_CHARS].replace("\0", "").split())[:TEXT_CHARS]


class LexborTree:
    def __init__(self, html: str) -> None:
        self._html = LexborHTMLParser(html)

    @property
    def is_deep(self) -> bool:
        return self._html.css_first(_DEEPER) is not None

    def select(self, selector: Selector) -> list[Match]:
        return [Match(node) for node in self._html.css(selector.text)]

    def key(self, element: LexborNode) -> Hashable:
        return element.mem_id

    def parent(self, element: LexborNode) -> LexborNode | None:
        return element.parent

    def text(self, match: Match) -> str:
        return tidy(match.element.text())

    def first_href(self, element: LexborNode) -> str | None:
        link = element.css_first("a[href]")
        return None if link is None else link.attributes.get("href")

    def hrefs(self) -> Iterable[str | None]:
        return (node.attributes.get("href") for node in self._html.css("a[href], area[href]"))

    def base_href(self) -> str | None:
        base = self._html.css_first("base[href]")
        return None if base is None else base.attributes.get("href")

    def title(self) -> str | None:
        title = self._html.css_first("title")
        return None if title is None else tidy(title.text())


class XPathTree:
    def __init__(self, html: str) -> None:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        root = etree.fromstring(html.encode("utf-8", "replace") or b"<html/>", parser)
        self._root = etree.Element("html") if root is None else root

    def select(self, selector: Selector) -> list[Match]:
        found = selector.xpath(self._root)
        if not isinstance(found, list):
            # count() and the like: a value of the whole page.
            return [Match(None, str(found))]
        return [self._match(one) for one in found if not isinstance(one, tuple)]

    def _match(self, found: Any) -> Match:
        if not isinstance(found, str):
            return Match(found)
        element = found.getparent()  # type: ignore[attr-defined]
        if getattr(found, "is_tail", False) and element is not None:
            element = element.getparent()
        return Match(element, str(found))

    def key(self, element: Any) -> Hashable:
        # lxml keeps one object per element while somebody holds it, and matches hold theirs.
        return element  # type: ignore[no-any-return]

    def parent(self, element: Any) -> Any | None:
        return element.getparent()

    def text(self, match: Match) -> str:
        return tidy(match.value if match.value is not None else "".join(match.element.itertext(with_tail=False)))

    def first_href(self, element: Any) -> str | None:
        for link in element.iter("a"):
            if (href := link.get("href")) is not None:
                return str(href)
        return None

    def hrefs(self) -> Iterable[str | None]:
        return (str(href) for href in _XPATH_LINKS(self._root))

    def base_href(self) -> str | None:
        for base in self._root.iter("base"):
            if (href := base.get("href")) is not None:
                return str(href)
        return None

    def title(self) -> str | None:
        for title in self._root.iter("title"):
            return tidy("".join(title.itertext(with_tail=False)))
        return None
