"""The DOM of a page, with one interface and two parsers: lexbor for CSS (fast), libxml2 where XPath is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any, Protocol

from cssselect import HTMLTranslator
from lxml import etree  # type: ignore[import-untyped]
from selectolax.lexbor import LexborCSSSelector, LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawlfleet.execution.crawl.parse.extract.selectors import Selector

TEXT_CHARS = 10_000
HTML_CHARS = 100_000
DEEP_LEVELS = 100
"""Number of levels from which a DOM counts as deep; pages that people write have twenty."""
_TAG_AND_ATTRIBUTES = attrgetter("tag", "attributes")
_DEEPER = " > ".join(["*"] * (DEEP_LEVELS + 1))


class ComputedText(str):
    """A value that XPath computed (`count(//a)`), with the element it was evaluated on; None for the page."""

    element: Any = None

    def getparent(self) -> Any:
        return self.element


class Dom(Protocol):
    """The interface of a DOM. A match is an element, or a text that XPath found in one (see `getparent`)."""

    # These are functions of the libraries and not methods: they are called for every match and every step up.
    @property
    def element_key(self) -> Callable[[Any], Hashable]: ...

    @property
    def parent_element(self) -> Callable[[Any], Any]: ...

    @property
    def raw_text(self) -> Callable[[Any], str]: ...

    def select_matches(self, selector: Selector) -> list[Any]: ...

    def select_in(self, selector: Selector, element: Any | None) -> list[Any]:
        """Evaluate an XPath from an element, or find a simple selector in it (or that it matches).

        Without an element, the search begins at the top.
        """
        ...

    def select_css(self, text: str) -> list[Any]:
        """Return the elements that match a selector of this package (not of a user)."""
        ...

    def select_first(self, text: str) -> Any | None: ...

    def select_in_head(self, text: str) -> list[Any]: ...

    def tag_name(self, element: Any) -> str: ...

    def get_attribute(self, element: Any, name: str) -> str | None: ...

    def linked_elements(self, max_elements: int) -> tuple[Iterable[tuple[str, Mapping[str, str | None]]], int]:
        """Return tag and attributes of every element that has a href, and how many there are beyond `max_elements`."""
        ...

    def elements_by_tag(self, tag: str) -> list[Any]: ...

    def element_html(self, element: Any) -> str: ...


def tidy_text(text: str, max_chars: int = TEXT_CHARS) -> str:
    if len(text) > max_chars:
        text = text[: 4 * max_chars]
    # No store accepts NUL in text, and no reader misses it.
    return " ".join((text.replace("\0", "") if "\0" in text else text).split())[:max_chars]


def match_text(dom: Dom, match: Any) -> str:
    return tidy_text(match if isinstance(match, str) else dom.raw_text(match))


def enclosing_element(dom: Dom, match: Any) -> Any | None:
    """Return the innermost element that contains a match."""
    if not isinstance(match, str):
        return dom.parent_element(match)
    element = match.getparent()  # type: ignore[attr-defined]
    # Text that follows an element belongs to the parent of both.
    return element.getparent() if element is not None and getattr(match, "is_tail", False) else element


def page_title(dom: Dom) -> str | None:
    element = dom.select_first("title")
    return None if element is None else tidy_text(dom.raw_text(element))


Find = Callable[[str, LexborNode], list[LexborNode]]


class _Matchers(threading.local):
    """The CSS matcher of a thread, shared by all of its pages.

    A matcher per page would take a tenth of the time of parsing it.
    """

    def __init__(self) -> None:
        self.renew_matcher()

    def renew_matcher(self) -> None:
        matcher: Any = LexborCSSSelector()  # type: ignore[no-untyped-call]
        self.find: Find = matcher.find
        self.find_first: Find = matcher.find_first


_matchers = _Matchers()


def _find_elements(find: Find, text: str, below: LexborNode | None) -> list[LexborNode]:
    if below is None:
        return []
    try:
        return find(text, below)
    except BaseException:
        # The state of the matcher is unknown after an exception: there may have been no memory left.
        _matchers.renew()
        raise


class LexborDom:
    element_key = staticmethod(attrgetter("mem_id"))
    parent_element = staticmethod(attrgetter("parent"))
    raw_text = staticmethod(methodcaller("text"))

    def __init__(self, html: str) -> None:
        # The content that a browser copies into `<selectedcontent>` is in its option already.
        self._html = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS)

        self._top = self._html.root

    @property
    def is_deep(self) -> bool:
        return self.select_first(_DEEPER) is not None

    def select_matches(self, selector: Selector) -> list[Any]:
        return self.select_css(selector.text)

    def select_in(self, selector: Selector, element: Any | None) -> list[Any]:
        return _find_elements(_matchers.find, selector.text, self._top if element is None else element)

    def select_css(self, text: str) -> list[Any]:
        return _find_elements(_matchers.find, text, self._top)

    def select_first(self, text: str) -> Any | None:
        elements = _find_elements(_matchers.find_first, text, self._top)
        return elements[0] if elements else None

    def select_in_head(self, text: str) -> list[Any]:
        return _find_elements(_matchers.find, text, self._html.head)

    def tag_name(self, element: LexborNode) -> str:
        return element.tag or ""

    def get_attribute(self, element: LexborNode, name: str) -> str | None:
        attributes = element.attributes
        # `<a href>` has the attribute without a value.
        return (attributes[name] or "") if name in attributes else None

    def linked_elements(self, max_elements: int) -> tuple[Iterable[tuple[str, Mapping[str, str | None]]], int]:
        elements = self.select_css("[href]")
        return map(_TAG_AND_ATTRIBUTES, elements[:max_elements]), max(0, len(elements) - max_elements)

    def elements_by_tag(self, tag: str) -> list[Any]:
        return self._html.tags(tag)

    def element_html(self, element: LexborNode) -> str:
        return (element.html or "")[:HTML_CHARS]


class XPathDom:
    # lxml keeps one object per element while it is referenced, and matches reference theirs.
    element_key = staticmethod(lambda element: element)
    parent_element = staticmethod(methodcaller("getparent"))
    raw_text = staticmethod(lambda element: "".join(element.itertext(with_tail=False)))

    def __init__(self, html: str) -> None:
        # libxml2 stops at 256 levels by itself, unless `huge_tree` is set.
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
        root = etree.fromstring(html.replace("\0", "").encode("utf-8", "replace") or b"<html/>", parser)
        self._root = etree.Element("html") if root is None else root

    def select_matches(self, selector: Selector) -> list[Any]:
        return self.select_in(selector, None)

    def select_in(self, selector: Selector, element: Any | None) -> list[Any]:
        result = selector.xpath(self._root if element is None else element)
        if isinstance(result, list):
            # XPath returns namespaces as pairs.
            return [match for match in result if not isinstance(match, tuple)]
        text = ComputedText(_format_value(result))
        text.element = element
        return [text] if text else []

    def select_css(self, text: str) -> list[Any]:
        return list(_compile_css(text)(self._root))

    def select_first(self, text: str) -> Any | None:
        elements = self.select_css(text)
        return elements[0] if elements else None

    select_in_head = select_css

    def tag_name(self, element: Any) -> str:
        return element.tag if isinstance(element.tag, str) else ""

    def get_attribute(self, element: Any, name: str) -> str | None:
        value = element.get(name)
        return None if value is None else str(value)

    def linked_elements(self, max_elements: int) -> tuple[Iterable[tuple[str, Mapping[str, str | None]]], int]:
        elements = self.select_css("[href]")
        linked = ((self.tag_name(element), element.attrib) for element in elements[:max_elements])
        return linked, max(0, len(elements) - max_elements)

    def elements_by_tag(self, tag: str) -> list[Any]:
        return list(self._root.iter(tag))

    def element_html(self, element: Any) -> str:
        html: str = etree.tostring(element, encoding="unicode", method="html", with_tail=False)
        return html[:HTML_CHARS]


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=64)
def _compile_css(text: str) -> Any:
    return etree.XPath(HTMLTranslator().css_to_xpath(text))


class NearestElements:
    """Finds the nearest of some elements that contains an element or is it.

    It caches the way up, so that a deep page costs one walk, not many.
    """

    def __init__(self, dom: Dom, elements: Mapping[Hashable, Any]) -> None:
        self._dom = dom
        self._elements = elements
        self._cached_keys: dict[Hashable, Hashable | None] = {}
        self._referenced: list[Any] = []

    def nearest_key(self, element: Any | None) -> Hashable | None:
        keys, cached_keys = self._elements, self._cached_keys
        element_key, parent_element = self._dom.element_key, self._dom.parent_element
        path: list[Hashable] = []
        nearest: Hashable | None = None
        while element is not None:
            key = element_key(element)
            if key in keys:
                nearest = key
                break
            if key in cached_keys:
                nearest = cached_keys[key]
                break
            path.append(key)
            # The element is referenced here, because its key is unique only for as long as it exists.
            self._referenced.append(element)
            element = parent_element(element)
        for key in path:
            cached_keys[key] = nearest
        return nearest

    def enclosing_key(self, key: Hashable) -> Hashable | None:
        """Return the key of the next of the elements that contains this one."""
        return self.nearest_key(self._dom.parent_element(self._elements[key]))
