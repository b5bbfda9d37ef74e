"""The product crawler of the shop family: visits one product by its URL, or crawls a shop for products.

Both use the crawl of `execution.crawl` with its robots, budgets and guards, and keep products instead of records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
from crawlfleet.execution.crawl.engine.crawl import Crawl
from crawlfleet.execution.crawl.engine.host_outages import HostOutages, is_answered
from crawlfleet.execution.crawl.engine.plan import CrawlPlan, make_crawl_plan
from crawlfleet.execution.crawl.fetch.fetcher import Fetcher
from crawlfleet.execution.crawl.frontier.patterns import BadRule, Patterns
from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan
from crawlfleet.execution.crawl.parse.extract.structured import BROKEN
from crawlfleet.execution.crawl.parse.page_parser import NO_MARKS, PageFacts
from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
from crawlfleet.execution.crawl.products.product import extract_product, shop_name
from crawlfleet.execution.crawl.products.product_plan import extraction_parameters, make_product_page
from crawlfleet.execution.executors.builtin.web_crawl import open_kept_cookies, select_proxies
from crawlfleet.execution.executors.shops.shop_schema import VISIT_NAMES
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.sdk import TaskContext, TaskError
from crawlfleet.model.product import Product, ProductKey, product_key
from crawlfleet.network.address_guard import AddressGuard

GONE_STATUSES = frozenset({404, 410})
"""HTTP statuses of a page that does not exist, rather than one that is unavailable now."""


class SeenProducts(CollectedItems):
    """The products that a crawl sees, each stored once."""

    def __init__(self, context: TaskContext, plan: CrawlPlan, product_pages: Sequence[str] = ()) -> None:
        super().__init__(context.item, plan.extraction)
        self._context = context
        fields = [f"product_pages[{index}]" for index in range(len(product_pages))]
        self._product_pages = Patterns(product_pages, fields)
        self._met: set[ProductKey] = set()
        self.last_product: Product | None = None
        self.shops: Counter[str] = Counter()
        self.unreadable = 0
        """Number of pages without a product whose structured data cannot be read."""

    async def add_page(self, url: str, status: int, facts: PageFacts, batch_number: int = 0) -> None:
        if self._product_pages and not self._product_pages.matching_indexes(url):
            return
        product = extract_product(make_product_page(url, facts))
        if product is None:
            self.unreadable += BROKEN in facts.page.get("structured", {})
            return
        if (key := product_key("", product.shop, product.id)) in self._met:
            return
        self._met.add(key)
        self.last_product = product
        self.shops[product.shop] += 1
        self.item_count += 1
        await self._context.product(product)
        await self._context.item(product_item(product))

    @property
    def products(self) -> int:
        return len(self._met)

    def notes(self) -> list[str]:
        if not self.unreadable:
            return []
        detail = "structured data that is no JSON, and no product by it: selectors may tell what is there"
        return [f"1 page has {detail}" if self.unreadable == 1 else f"{self.unreadable} pages have {detail}"]


@dataclass(frozen=True, slots=True)
class ProductVisit:
    """The result of a visit to the page of one product."""

    product: Product | None = None
    failure: PageFailed | None = None
    is_unreadable: bool = False
    """Whether its structured data cannot be read: it may show a product all the same."""

    @property
    def is_gone(self) -> bool:
        """Whether the page does not exist any more, or shows no product."""
        if self.product is not None or self.is_unreadable:
            return False
        return self.failure is None or self.failure.status in GONE_STATUSES


class ProductCrawler:
    """The crawler of one execution, whose visits share connections and cookies."""

    def __init__(self, context: TaskContext, parameters: Mapping[str, Any]) -> None:
        self._context = context
        self._visit_parameters = {
            **{name: parameters[name] for name in VISIT_NAMES if name in parameters and name != "selectors"},
            **extraction_parameters(parameters.get("selectors")),
        }
        self._proxies = select_proxies(context)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        plan = self.build_plan({"url": "http://shop.invalid/"})
        try:
            guard = AddressGuard(self._context.allow_hosts)
        except ValueError as exc:
            raise TaskError(f"allowed hosts: {exc}", error="policy", permanent=True) from exc
        self._reader = PageParser(plan.extraction)
        self._stack.push_async_callback(self._reader.close)
        context = self._context
        cookies = await self._stack.enter_async_context(open_kept_cookies(context))
        self._fetcher = await self._stack.enter_async_context(
            Fetcher(
                guard,
                user_agent=plan.user_agent,
                gate=context.gate,
                meter=context.meter,
                headers=plan.headers,
                proxies=self._proxies,
                cookies=cookies,
            )
        )
        # Shared by all visits: an outage that one of them detects holds for the others.
        self._outages = HostOutages(partial(is_answered, self._fetcher), context.log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, exc, trace)

    def build_plan(self, parameters: Mapping[str, Any]) -> CrawlPlan:
        try:
            return make_crawl_plan({**parameters, **self._visit_parameters})
        except (BadPlan, BadRule) as exc:
            raise TaskError(str(exc), error="input", permanent=True) from exc

    async def visit_product(self, url: str) -> ProductVisit:
        """Visit the page of one product, following redirects."""
        plan = self.build_plan({"url": url})
        if not plan.urls:
            return ProductVisit(failure=PageFailed("input", f"{url!r} is no URL of a page", permanent=True))
        seen = SeenProducts(self._context, plan)
        crawl = await self.run_crawl(plan, seen)
        if seen.last_product is not None:
            return ProductVisit(seen.last_product)
        return (
            ProductVisit(is_unreadable=seen.unreadable > 0)
            if crawl.starts_reached
            else ProductVisit(failure=_first_failure(crawl, url))
        )

    async def run_crawl(self, plan: CrawlPlan, seen: SeenProducts) -> Crawl:
        context = self._context
        pagination = plan.follow_config.pagination
        reader = self._reader
        if pagination is not None and pagination.marks != NO_MARKS:
            reader = PageParser(plan.extraction, marks=pagination.marks)
            self._stack.push_async_callback(reader.close)
        crawl = Crawl(
            plan,
            fetcher=self._fetcher,
            reader=reader,
            collected_items=seen,
            report=context,
            gate=context.gate,
            robots=context.robots if plan.is_plain else None,
            is_own_address=self._proxies is None,
            outages=self._outages,
        )
        await crawl.run()
        return crawl


def product_item(product: Product) -> dict[str, Any]:
    """A product as an item of a task's results."""
    return {
        "product_id": product.id,
        "shop": product.shop,
        "title": product.title,
        "price": product.price,
        "currency": product.currency,
        "availability": product.availability,
        **_other_attributes(product.attributes),
        "_url": product.url,
    }


def gone_product(product_id: str, url: str) -> Product:
    return Product(shop_name(url), product_id, url, is_gone=True)


def _other_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in ("product_id", "shop", "title", "price")}


def _first_failure(crawl: Crawl, url: str) -> PageFailed:
    """The failure of an unreached start URL: a temporary one if there is any, so that the task is retried."""
    failures = sorted(crawl.start_failures, key=lambda failure: failure.permanent)
    return failures[0] if failures else PageFailed("timeout", f"{url}: was not reached")
