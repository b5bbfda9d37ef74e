"""The next page of a list: by rel=next, by a selector, or by a template with the number of the page.

The pages of one list are as far from the start as its first: `depth` counts steps into a site, not along a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from crawlfleet.execution.crawl.frontier import digest
from crawlfleet.execution.crawl.links import canonical
from crawlfleet.execution.crawl.normalise import Normaliser
from crawlfleet.execution.crawl.patterns import BadRule

MOST_PAGES = 1_000
NUMBER = "{page}"
_REL_NEXT = 'a[rel~="next"][href], link[rel~="next"][href]'
# Names, classes, ids and attributes, one below the other: cheap on every page that is not nested very deeply.
_PLAIN = re.compile(r"[\w\s.#\[\]=\"'^$*|~>,/-]+")


class Pagination:
    def __init__(self, options: Mapping[str, Any], normalise: Normaliser) -> None:
        """Raises BadRule with the name of the parameter that cannot be used."""
        self._normalise = normalise
        selector = options.get("selector")
        selectors = [_checked("pagination.selector", selector)] if selector is not None else []
        if options.get("rel_next", False):
            selectors.append(_REL_NEXT)
        self._next = ", ".join(selectors)
        self._while = _checked("pagination.while", options["while"]) if "while" in options else None
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
        """The first page of the template, if there is one."""
        self._numbered = self._page(self._at)
        return self._numbered

    def after(self, url: str, html: str, tree: LexborHTMLParser) -> list[str]:
        """Where a list goes on behind a page of it; nothing where it ends."""
        step = self._steps.pop(url, 1)
        if self._while is not None and (url == self._numbered or step > 1) and tree.css_first(self._while) is None:
            return []
        found = [*self._linked(tree, url, step), *self._counted(url, html)]
        return list(dict.fromkeys(found))

    def _linked(self, tree: LexborHTMLParser, url: str, step: int) -> list[str]:
        if not self._next or step >= self._most:
            return []
        base = tree.css_first("base[href]")
        where = canonical(base.attributes.get("href") or "", url) if base is not None else url
        hrefs = [node.attributes.get("href") or "" for node in tree.css(self._next)[:10]]
        found = [self._normalise(target) for href in hrefs if href and (target := canonical(href, where or url))]
        self._steps.update((target, step + 1) for target in found if target != url)
        return found

    def _counted(self, url: str, html: str) -> list[str]:
        if url != self._numbered:
            return []
        # Behind the last page some sites show it again, for ever.
        is_again, self._seen = digest(html) == self._seen, digest(html)
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


def _checked(field: str, selector: str) -> str:
    if not _PLAIN.fullmatch(selector):
        raise BadRule(field, f"{selector!r}: only names, classes, ids and attributes can be used here")
    try:
        LexborHTMLParser("<p></p>").css(selector)
    except (SelectolaxError, ValueError) as exc:
        raise BadRule(field, f"{selector!r} is no CSS selector") from exc
    return selector


def _template(template: str | None) -> str | None:
    if template is None:
        return None
    if NUMBER not in template:
        raise BadRule("pagination.template", f"{template!r} has no {NUMBER}")
    if canonical(template.replace(NUMBER, "1")) is None:
        raise BadRule("pagination.template", f"{template!r} is no URL of a page")
    return template
