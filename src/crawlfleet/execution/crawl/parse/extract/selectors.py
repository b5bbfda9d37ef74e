"""A selector is CSS unless it looks like XPath.

Users write selectors and unknown people write pages; together they can cost anything. A selector is *plain* when its
cost on a small page is small whatever the page looks like. Others are matched in the parser process, with a time limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cssselect import HTMLTranslator, SelectorError
from lxml import etree  # type: ignore[import-untyped]

from crawlfleet.execution.crawl.parse.extract.css_check import css_problem
from crawlfleet.execution.crawl.parse.extract.limits import SELECTOR_CHARS

XPATH_STARTS = ("/", "./", "../", "(", "@")
XPATH_CALL = re.compile(r"[a-z-]+\(")
PLAIN_DESCENTS = 2
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_XPATH_BRACKET = re.compile(r"([\w.:-]*[\w.-])\s*\(")
_XPATH_WORDS = frozenset(
    {
        "last",
        "position",
        "count",
        "id",
        "local-name",
        "namespace-uri",
        "name",
        "string",
        "concat",
        "starts-with",
        "contains",
        "substring-before",
        "substring-after",
        "substring",
        "string-length",
        "normalize-space",
        "translate",
        "boolean",
        "not",
        "true",
        "false",
        "lang",
        "number",
        "sum",
        "floor",
        "ceiling",
        "round",
        "comment",
        "text",
        "processing-instruction",
        "node",
        "and",
        "or",
        "mod",
        "div",
    }
)
"""Names that may stand before a bracket: the functions of XPath 1.0, kinds of nodes, operators."""
_CSS_RELATION = re.compile(r"[\s>+~,:|]")
_CSS_DESCENTS = re.compile(r"(?<![\s>+~,])\s+(?![\s>+~,]|$)")


class BadSelector(Exception):
    """Raised for a selector that cannot be used; the message gives the reason and the position."""


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    text: str
    is_xpath: bool
    is_plain: bool
    descents: int
    """Number of descendant steps ("anywhere below"): deep pages multiply their cost."""
    xpath: Any = None
    """Compiled XPath, when the page is parsed for XPath."""
    is_simple: bool = False
    """Whether a match depends on the element alone, and not on others around it."""


@dataclass(frozen=True, slots=True)
class SelectorSet:
    """The selectors of the flat form."""

    selectors: tuple[Selector, ...]

    def selector_texts(self) -> dict[str, str]:
        return {selector.name: selector.text for selector in self.selectors}


def is_xpath(text: str) -> bool:
    start = text.lstrip()
    return start.startswith(XPATH_STARTS) or start == "." or XPATH_CALL.match(start) is not None


def compile_selector(name: str, text: str, *, by_xpath: bool, is_inside: bool = False) -> Selector:
    """Compile a selector. Raises BadSelector.

    `by_xpath` translates CSS, as one DOM serves all selectors; `is_inside` searches below an element.
    """
    if len(text) > SELECTOR_CHARS:
        raise BadSelector(f"has {len(text)} characters, and at most {SELECTOR_CHARS} are taken")
    if is_xpath(text):
        # Inside a container "anywhere" means anywhere in it.
        below = f".{text.lstrip()}" if is_inside and text.lstrip().startswith("//") else text
        return Selector(name, text, True, _is_plain_xpath(text), 0, _compile_xpath(below))
    if (problem := css_problem(text)) is not None:
        raise BadSelector(f"{text!r} is no CSS selector: {problem} (XPath starts with / or .// or a bracket)")
    bare = _STRINGS.sub("''", text)
    descents = len(_CSS_DESCENTS.findall(bare.strip()))
    is_plain = ":" not in bare and "~" not in bare and descents <= (0 if by_xpath else PLAIN_DESCENTS)
    xpath = _compile_xpath(_css_to_xpath(text)) if by_xpath else None
    is_simple = not by_xpath and _CSS_RELATION.search(bare.strip()) is None
    return Selector(name, text, False, is_plain, descents, xpath, is_simple)


def _css_to_xpath(text: str) -> str:
    try:
        return HTMLTranslator().css_to_xpath(text)
    except SelectorError as exc:
        raise BadSelector(f"{text!r} cannot be used beside XPath: {exc}") from exc


def _compile_xpath(text: str) -> Any:
    try:
        xpath = etree.XPath(text, regexp=False)
        # Unknown prefixes are reported only when the XPath runs.
        xpath(etree.Element("html"))
    except etree.XPathError as exc:
        column = max((entry.column for entry in exc.error_log), default=0)
        position = f" at position {column}" if column else ""
        raise BadSelector(f"{text!r} is no XPath: {str(exc).lower()}{position}") from exc
    except ValueError as exc:
        raise BadSelector(f"{text!r} is no XPath: {exc}") from exc
    if (unknown := _unknown_function(text)) is not None:
        raise BadSelector(f"{text!r} is no XPath: there is no {unknown[1]}() at position {unknown.start(1)}")
    return xpath


def _unknown_function(text: str) -> re.Match[str] | None:
    """Return the first call of an unknown function.

    libxml2 would report it only on pages that have what stands before it, and then on every one of them.
    """
    bare = _STRINGS.sub(lambda string: " " * len(string[0]), text)
    for call in _XPATH_BRACKET.finditer(bare):
        # An axis may stand before the kind of node.
        if call[1].rpartition("::")[2] not in _XPATH_WORDS:
            return call
    return None


def _is_plain_xpath(text: str) -> bool:
    """Return whether an XPath is plain: at most one "anywhere below", only children and attributes, and no unions."""
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
