"""The site of the demo shop: robots.txt and the pages of its storefront."""

from __future__ import annotations

from datetime import UTC, datetime

from crawlfleet.demo_shop.catalogue import Catalogue, Product
from crawlfleet.demo_shop.http_messages import TEXT, Request, write_response
from crawlfleet.demo_shop.page_answers import PageAnswers
from crawlfleet.demo_shop.site_page import ORIGIN
from crawlfleet.demo_shop.storefront import DemoStorefront

OPENED_AT = datetime(2026, 1, 1, tzinfo=UTC)
"""Date of every page: the shop's own calendar, the same for each client at any time."""


class DemoSite:
    """Answers the requests to the demo shop."""

    def __init__(self, catalogue: Catalogue[Product]) -> None:
        self._storefront = DemoStorefront(catalogue)
        self._pages = PageAnswers(self._storefront.find_page, lambda _request, _page: OPENED_AT)

    def answer_request(self, request: Request) -> bytes:
        if request.path == "/robots.txt":
            robots_text = self._storefront.robots_text().replace(ORIGIN, request.origin)
            return write_response(200, robots_text, content_type=TEXT)
        return self._pages.answer_request(request)
