"""Pagination finds the next page of a list: by rel=next, by a selector, or by a template with the page number.

All pages of one list have the depth of its first: `depth` counts steps into a site, not along a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from cssselect import HTMLTranslator, SelectorError

from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.frontier.urls import canonical
from crawlfleet.execution.crawl.parse.extract.css_check import css_problem
from crawlfleet.execution.crawl.parse.extract.selectors import is_xpath
from crawlfleet.execution.crawl.parse.page_parser import ListMarks, PageFacts

MOST_PAGES = 1_000
NUMBER = "{page}"
# Only tags, classes, ids and attributes with child and descendant steps: cheap on every page that is not nested very
# deeply.
_PLAIN = re.compile(r"[\w\s.#\[\]=\"'^$*|~>,/-]+")


class Pagination:
    def __init__(self, options: Mapping[str, Any], normalise: Normaliser) -> None:
        """Compile the options. Raises BadRule with the name of the parameter that cannot be used."""
        self._normalise = normalise
        self._rel_next = bool(options.get("rel_next", False))
        self.marks = ListMarks(*(_checked(name, options.get(name, "")) for name in ("selector", "while")))
        self._template = _template(options.get("template"))
        self._at = int(options.get("first", 1))
        self._last = int(options.get("last", self._at + MOST_PAGES - 1))
        if self._last < self._at:
            raise BadRule("pagination.last", f"{self._last} comes before the first page, {self._at}")
        self._most = int(options.get("most", MOST_PAGES))
        self._numbered: str | None = None
        self._seen = b""
        self._steps: dict[str, int] = {}

    def first(self) -> str | None:
        """Return the first page of the template, if there is one."""
        self._numbered = self._page(self._at)
        return self._numbered

    def after(self, url: str, facts: PageFacts, body: bytes) -> list[str]:
        """Return the pages that follow a page of a list; none where the list ends."""
        step = self._steps.pop(url, 1)
        if not facts.goes_on and (url == self._numbered or step > 1):
            return []
        found = [*self._linked(url, facts, step), *self._counted(url, body)]
        return list(dict.fromkeys(found))

    def _linked(self, url: str, facts: PageFacts, step: int) -> list[str]:
        if step >= self._most:
            return []
        hrefs = [*facts.next, *([facts.links.next] if self._rel_next and facts.links.next else [])]
        found = [self._normalise(target) for href in hrefs if (target := canonical(href, facts.base))]
        self._steps.update((target, step + 1) for target in found if target != url)
        return found

    def _counted(self, url: str, body: bytes) -> list[str]:
        if url != self._numbered:
            return []
        # After the last page some sites show it again without end.
        seen = blake2b(body, digest_size=16).digest()
        is_again, self._seen = seen == self._seen, seen
        self._at += 1
        if is_again or self._at > self._last:
            return []
        self._numbered = self._page(self._at)
        return [self._numbered] if self._numbered is not None else []

    def _page(self, number: int) -> str | None:
        if self._template is None:
            return None
        url = canonical(self._template.replace(NUMBER, str(number)))
        return None if url is None else self._normalise(url)


def _checked(name: str, selector: str) -> str:
    field = f"pagination.{name}"
    if not selector:
        return selector
    if is_xpath(selector):
        raise BadRule(field, f"{selector!r}: a CSS selector is asked for here, no XPath")
    if not _PLAIN.fullmatch(selector):
        raise BadRule(field, f"{selector!r}: only names, classes, ids and attributes can be used here")
    if (problem := css_problem(selector)) is not None:
        raise BadRule(field, f"{selector!r} is no CSS selector: {problem}")
    try:
        # Pages are parsed by libxml2 where the plan has an XPath.
        HTMLTranslator().css_to_xpath(selector)
    except SelectorError as exc:
        raise BadRule(field, f"{selector!r} is no CSS selector: {exc}") from exc
    return selector


def _template(template: str | None) -> str | None:
    if template is None:
        return None
    if NUMBER not in template:
        raise BadRule("pagination.template", f"{template!r} has no {NUMBER}")
    if canonical(template.replace(NUMBER, "1")) is None:
        raise BadRule("pagination.template", f"{template!r} is no URL of a page")
    return template
