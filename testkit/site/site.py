"""The test site: it chooses the response to a request, from one version of the shop."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from crawlfleet.demo_shop.http_messages import Request, write_response
from crawlfleet.demo_shop.page_answers import PageAnswers
from crawlfleet.demo_shop.site_page import ORIGIN, Page
from testkit.site import structured_data
from testkit.site.connection import Answer, Exchange
from testkit.site.control_endpoints import answer_control
from testkit.site.nasty.behaviour_table import find_behaviour
from testkit.site.nasty.robots import robots_answer
from testkit.site.page_gate import PREFIX, PageGate
from testkit.site.page_list import ListedPage, Rules, Storefront
from testkit.site.plain_storefront import PlainStorefront
from testkit.site.request_log import RequestLog
from testkit.site.storefront import NastyStorefront
from testkit.site.versioned_catalogue import VersionedCatalogue, changed_at
from testkit.site.visitor_memory import Memory

VERSIONS = 20


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """The options of the test site."""

    products: int = 5_000
    seed: int = 1
    is_plain: bool = False
    """Whether it serves the demo shop: one notation of prices, one URL per page, no link pages."""
    has_traps: bool = False
    """Whether the front page links to the traps, which are served in any case."""
    page_bytes: int = 0
    """Size in bytes to which product pages are about filled up with text."""
    most_per_second: int | None = None
    """Rate above which (in any sliding second, per host name) every page is answered 429."""
    robots: str = "shop"
    """Variant of robots.txt for host names that do not ask for one (`robots-404.…`)."""


class Changes(NamedTuple):
    """The paths that differ between two versions of the shop."""

    new: list[str]
    changed: list[str]
    gone: list[str]


class Site:
    """The test site: the pages of a storefront, the nasty behaviours, and the control endpoints.

    Its pages are answered by the demo shop's own `PageAnswers`.
    """

    def __init__(self, options: SiteOptions) -> None:
        self.options = options
        self.log = RequestLog()
        self.memory = Memory()
        self.gate = PageGate()
        self.version = 1
        self.robots = options.robots
        self.most_per_second = options.most_per_second
        self._shop_at = cache(self._make_shop)
        self._pages = PageAnswers(self._find_page, self._changed_at)

    def _make_shop(self, version: int) -> Storefront:
        options = self.options
        catalogue = VersionedCatalogue(options.products, options.seed, version, is_plain=options.is_plain)
        if options.is_plain:
            return PlainStorefront(catalogue)
        return NastyStorefront(catalogue, page_bytes=options.page_bytes, has_traps=options.has_traps)

    @property
    def shop(self) -> Storefront:
        return self._shop_at(self.version)

    def set_version(self, version: int) -> None:
        """Switch to a version: the seed determines what is new, changed and gone from now on."""
        self.version = _checked(version)
        self._pages.clear_cache()

    def list_pages(self) -> list[ListedPage]:
        return self.shop.list_pages()

    def reachable(self, rules: Rules | None = None) -> list[str]:
        """Return every page, each once, that a crawl from `/` reaches under these rules, by the site's own list."""
        rules = rules or Rules()
        return sorted({page.path for page in self.list_pages() if rules.include(page)})

    def items(self) -> list[dict[str, Any]]:
        """Return what a crawl should extract: one item for each product."""
        return [structured_data.make_item(product) for product in self.shop.catalogue.products]

    def changes(self, before: int, after: int, rules: Rules | None = None) -> Changes:
        """Return the differences between two versions, page by page."""
        rules = rules or Rules()
        old, new = (self._bodies(self._shop_at(version), rules) for version in map(_checked, (before, after)))
        return Changes(
            new=sorted(new.keys() - old.keys()),
            changed=sorted(path for path in new.keys() & old.keys() if new[path] != old[path]),
            gone=sorted(old.keys() - new.keys()),
        )

    def _bodies(self, shop: Storefront, rules: Rules) -> dict[str, bytes | None]:
        paths = {listed.path for listed in shop.list_pages() if rules.include(listed)}
        pages = {path: shop.find_page(*_split(path)) for path in paths}
        return {path: page.body if page else None for path, page in pages.items()}

    def answer(self, exchange: Exchange) -> Answer:
        request = exchange.request
        if request.path.startswith(PREFIX):
            return answer_control(self, exchange)
        self.log.note(request)
        if self.most_per_second is not None and not self.memory.is_open(request.host, self.most_per_second):
            return write_response(429, "Slowly, please.", [("Retry-After", "1")])
        if request.path == "/robots.txt":
            return robots_answer(exchange, self.robots, self.shop.robots_text().replace(ORIGIN, request.origin))
        if (behaviour := find_behaviour(request.path)) is not None:
            return behaviour.answer(exchange)
        return self._pages.answer_request(request)

    def _find_page(self, path: str, query: str) -> Page | None:
        return self.shop.find_page(path, query)

    def _changed_at(self, request: Request, page: Page) -> datetime:
        """Return the date of the oldest version since which the page is unchanged."""
        since = self.version
        while since > 1 and self._shop_at(since - 1).find_page(request.path, request.query) == page:
            since -= 1
        return changed_at(since)


def _checked(version: int) -> int:
    if not 1 <= version <= VERSIONS:
        raise ValueError(f"version: between 1 and {VERSIONS}")
    return version


def _split(path: str) -> tuple[str, str]:
    front, _, query = path.partition("?")
    return front, query
