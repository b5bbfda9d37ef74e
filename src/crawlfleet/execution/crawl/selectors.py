"""What a task asks to extract: names and selectors, CSS unless they look like XPath.

Users write selectors and strangers write pages; together they can cost anything. A selector is *plain* when its cost
on a small page is small whatever the page looks like. Others are matched in a process apart, with a limit of time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cssselect import HTMLTranslator, SelectorError
from lxml import etree  # type: ignore[import-untyped]
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

XPATH_STARTS = ("/", "./", "(")
PLAIN_DESCENTS = 2
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_CSS_DESCENTS = re.compile(r"(?<![\s>+~,])\s+(?![\s>+~,]|$)")


class BadSelector(Exception):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"selectors.{name}: {detail}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    text: str
    is_xpath: bool
    is_plain: bool
    descents: int
    """Steps of "anywhere below": deep pages multiply them."""
    xpath: Any = None
    """Compiled, when the page is read by XPath."""


@dataclass(frozen=True, slots=True)
class SelectorSet:
    selectors: tuple[Selector, ...]
    by_xpath: bool
    """One XPath among them, and all are matched that way, on one tree."""

    @property
    def is_plain(self) -> bool:
        return all(selector.is_plain for selector in self.selectors)

    @property
    def descents(self) -> int:
        return max((selector.descents for selector in self.selectors), default=0)

    def texts(self) -> dict[str, str]:
        return {selector.name: selector.text for selector in self.selectors}


def is_xpath(text: str) -> bool:
    return text.lstrip().startswith(XPATH_STARTS)


def compiled(selectors: Mapping[str, str]) -> SelectorSet:
    """Raises BadSelector for the first that does not parse."""
    by_xpath = any(is_xpath(text) for text in selectors.values())
    made = []
    for name, text in selectors.items():
        if is_xpath(text):
            made.append(Selector(name, text, True, _is_plain_xpath(text), 0, _xpath(name, text)))
        else:
            _check_css(name, text)
            bare = _STRINGS.sub("''", text)
            descents = len(_CSS_DESCENTS.findall(bare.strip()))
            is_plain = ":" not in bare and "~" not in bare and descents <= PLAIN_DESCENTS
            xpath = _xpath(name, _translated(name, text)) if by_xpath else None
            if by_xpath:
                is_plain = is_plain and not descents
            made.append(Selector(name, text, False, is_plain, descents, xpath))
    return SelectorSet(tuple(made), by_xpath)


def _check_css(name: str, text: str) -> None:
    try:
        LexborHTMLParser("<p></p>").css(text)
    except (SelectolaxError, ValueError) as exc:
        raise BadSelector(name, f"{text!r} is no CSS selector (XPath starts with / or .// or a bracket)") from exc


def _translated(name: str, text: str) -> str:
    try:
        return HTMLTranslator().css_to_xpath(text)
    except SelectorError as exc:
        raise BadSelector(name, f"{text!r} cannot be used beside XPath: {exc}") from exc


def _xpath(name: str, text: str) -> Any:
    try:
        made = etree.XPath(text, regexp=False)
        # Unknown functions and prefixes show only when it runs.
        made(etree.Element("html"))
    except etree.XPathError as exc:
        raise BadSelector(name, f"{text!r} is no XPath: {exc}") from exc
    return made


def _is_plain_xpath(text: str) -> bool:
    """One step of "anywhere below" at most, no other axis than children and attributes, and no unions."""
    bare = _STRINGS.sub("''", text)
    if bare.count("//") > 1 or any(mark in bare for mark in ("::", "..", "|")):
        return False
    return "/" not in _in_brackets(bare)


def _in_brackets(text: str) -> str:
    inside, depth = [], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if depth > 0:
            inside.append(char)
    return "".join(inside)
