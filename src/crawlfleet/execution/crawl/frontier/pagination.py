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
from crawlfleet.execution.crawl.frontier.urls import canonical_url
from crawlfleet.execution.crawl.parse.extract.css_check import css_problem
from crawlfleet.execution.crawl.parse.extract.selectors import is_xpath
from crawlfleet.execution.crawl.parse.page_parser import ListMarks, PageFacts

MAX_PAGES = 1_000
PAGE_NUMBER = "{page}"
# Only tags, classes, ids and attributes with child and descendant steps: cheap on every page that is not nested very
# deeply.
_PLAIN_SELECTOR = re.compile(r"[\w\s.#\[\]=\"'^$*|~>,/-]+")


class Pagination:
    def __init__(self, options: Mapping[str, Any], normalise: Normaliser) -> None:
        """Compile the options. Raises BadRule with the name of the parameter that cannot be used."""
        self._normalise = normalise
        self._rel_next = bool(options.get("rel_next", False))
        self.marks = ListMarks(*(_check_selector(name, options.get(name, "")) for name in ("selector", "while")))
        self._template = _check_template(options.get("template"))
        self._number = int(options.get("first", 1))
        self._last_number = int(options.get("last", self._number + MAX_PAGES - 1))
        if self._last_number < self._number:
            raise BadRule("pagination.last", f"{self._last_number} comes before the first page, {self._number}")
        self._max_pages = int(options.get("most", MAX_PAGES))
        self._numbered_url: str | None = None
        self._last_digest = b""
        self._step_by_url: dict[str, int] = {}

    def first_page(self) -> str | None:
        """Return the first page of the template, if there is one."""
        self._numbered_url = self._page_url(self._number)
        return self._numbered_url

    def next_pages(self, url: str, facts: PageFacts, body: bytes) -> list[str]:
        """Return the pages that follow a page of a list; none where the list ends."""
        step = self._step_by_url.pop(url, 1)
        if not facts.goes_on and (url == self._numbered_url or step > 1):
            return []
        urls = [*self._linked_pages(url, facts, step), *self._numbered_pages(url, body)]
        return list(dict.fromkeys(urls))

    def _linked_pages(self, url: str, facts: PageFacts, step: int) -> list[str]:
        if step >= self._max_pages:
            return []
        hrefs = [*facts.next, *([facts.links.next] if self._rel_next and facts.links.next else [])]
        targets = [self._normalise(target) for href in hrefs if (target := canonical_url(href, facts.base))]
        self._step_by_url.update((target, step + 1) for target in targets if target != url)
        return targets

    def _numbered_pages(self, url: str, body: bytes) -> list[str]:
        if url != self._numbered_url:
            return []
        # After the last page some sites show it again without end.
        digest = blake2b(body, digest_size=16).digest()
        is_repeated, self._last_digest = digest == self._last_digest, digest
        self._number += 1
        if is_repeated or self._number > self._last_number:
            return []
        self._numbered_url = self._page_url(self._number)
        return [self._numbered_url] if self._numbered_url is not None else []

    def _page_url(self, number: int) -> str | None:
        if self._template is None:
            return None
        url = canonical_url(self._template.replace(PAGE_NUMBER, str(number)))
        return None if url is None else self._normalise(url)


def _check_selector(name: str, selector: str) -> str:
    field = f"pagination.{name}"
    if not selector:
        return selector
    if is_xpath(selector):
        raise BadRule(field, f"{selector!r}: a CSS selector is asked for here, no XPath")
    if not _PLAIN_SELECTOR.fullmatch(selector):
        raise BadRule(field, f"{selector!r}: only names, classes, ids and attributes can be used here")
    if (problem := css_problem(selector)) is not None:
        raise BadRule(field, f"{selector!r} is no CSS selector: {problem}")
    try:
        # Pages are parsed by libxml2 where the plan has an XPath.
        HTMLTranslator().css_to_xpath(selector)
    except SelectorError as exc:
        raise BadRule(field, f"{selector!r} is no CSS selector: {exc}") from exc
    return selector


def _check_template(template: str | None) -> str | None:
    if template is None:
        return None
    if PAGE_NUMBER not in template:
        raise BadRule("pagination.template", f"{template!r} has no {PAGE_NUMBER}")
    if canonical_url(template.replace(PAGE_NUMBER, "1")) is None:
        raise BadRule("pagination.template", f"{template!r} is no URL of a page")
    return template
