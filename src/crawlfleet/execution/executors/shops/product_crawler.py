"""How tasks of the shop family visit pages: one product by its address, or a crawl that keeps the products it meets.

Both are the crawl of `execution.crawl` with its robots, budgets and guards; only what is kept of a page is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from crawlfleet.execution.crawl.engine.collected_items import Gathered
from crawlfleet.execution.crawl.engine.crawl import Crawl
from crawlfleet.execution.crawl.engine.host_outages import Outages, is_answered
from crawlfleet.execution.crawl.engine.plan import CrawlPlan, plan_of
from crawlfleet.execution.crawl.fetch.address_guard import AddressGuard
from crawlfleet.execution.crawl.fetch.fetcher import Fetcher
from crawlfleet.execution.crawl.frontier.patterns import BadRule, Patterns
from crawlfleet.execution.crawl.parse.extract.extraction_plan import BadPlan
from crawlfleet.execution.crawl.parse.extract.structured import BROKEN
from crawlfleet.execution.crawl.parse.page_parser import NO_MARKS, PageFacts
from crawlfleet.execution.crawl.parse.parser_dispatch import PageReader
from crawlfleet.execution.crawl.products.product import product_of, shop_of
from crawlfleet.execution.crawl.products.product_plan import extraction, page_said
from crawlfleet.execution.executors.builtin.web_crawl import kept_cookies, proxies_of
from crawlfleet.execution.executors.shops.shop_schema import VISIT_NAMES
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.sdk import TaskContext, TaskError
from crawlfleet.model.product import Product, ProductKey, key_of

GONE = frozenset({404, 410})
"""Answers that say there is no such page, rather than that it cannot be had now."""


class Seen(Gathered):
    """The products that a crawl meets, each told once."""

    def __init__(self, context: TaskContext, plan: CrawlPlan, product_pages: Sequence[str] = ()) -> None:
        super().__init__(context.item, plan.extraction)
        self._context = context
        fields = [f"product_pages[{at}]" for at in range(len(product_pages))]
        self._product_pages = Patterns(product_pages, fields)
        self._met: set[ProductKey] = set()
        self.last: Product | None = None
        self.shops: Counter[str] = Counter()
        self.unreadable = 0
        """Pages that show no product, and whose structured data cannot be read."""

    async def add(self, url: str, status: int, facts: PageFacts, chunk: int = 0) -> None:
        if self._product_pages and not self._product_pages.matching(url):
            return
        product = product_of(page_said(url, facts))
        if product is None:
            self.unreadable += BROKEN in facts.page.get("structured", {})
            return
        if (key := key_of("", product.shop, product.id)) in self._met:
            return
        self._met.add(key)
        self.last = product
        self.shops[product.shop] += 1
        self.items += 1
        await self._context.product(product)
        await self._context.item(item_of(product))

    @property
    def products(self) -> int:
        return len(self._met)

    def notes(self) -> list[str]:
        if not self.unreadable:
            return []
        told = "structured data that is no JSON, and no product by it: selectors may tell what is there"
        return [f"1 page has {told}" if self.unreadable == 1 else f"{self.unreadable} pages have {told}"]


@dataclass(frozen=True, slots=True)
class Look:
    """What became of a visit to the page of one product."""

    product: Product | None = None
    failure: PageFailed | None = None
    is_unreadable: bool = False
    """What it says of itself cannot be read: it may show a product all the same."""

    @property
    def is_gone(self) -> bool:
        """The page is not there any more, or shows no product."""
        if self.product is not None or self.is_unreadable:
            return False
        return self.failure is None or self.failure.status in GONE


class Shopper:
    """One for an execution: its connections and cookies are shared by all of its visits."""

    def __init__(self, context: TaskContext, parameters: Mapping[str, Any]) -> None:
        self._context = context
        self._visits = {
            **{name: parameters[name] for name in VISIT_NAMES if name in parameters and name != "selectors"},
            **extraction(parameters.get("selectors")),
        }
        self._proxies = proxies_of(context)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        plan = self.plan({"url": "http://shop.invalid/"})
        try:
            guard = AddressGuard(self._context.allow_hosts)
        except ValueError as exc:
            raise TaskError(f"allowed hosts: {exc}", error="policy", permanent=True) from exc
        self._reader = PageReader(plan.extraction)
        self._stack.push_async_callback(self._reader.close)
        context = self._context
        cookies = await self._stack.enter_async_context(kept_cookies(context))
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
        # One for all visits: what one of them finds out of a host the others need not.
        self._outages = Outages(partial(is_answered, self._fetcher), context.log)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, exc, trace)

    def plan(self, parameters: Mapping[str, Any]) -> CrawlPlan:
        try:
            return plan_of({**parameters, **self._visits})
        except (BadPlan, BadRule) as exc:
            raise TaskError(str(exc), error="input", permanent=True) from exc

    async def look(self, url: str) -> Look:
        """At the page of one product; redirects are followed."""
        plan = self.plan({"url": url})
        if not plan.urls:
            return Look(failure=PageFailed("input", f"{url!r} is no URL of a page", permanent=True))
        seen = Seen(self._context, plan)
        crawl = await self.crawl(plan, seen)
        if seen.last is not None:
            return Look(seen.last)
        return Look(is_unreadable=seen.unreadable > 0) if crawl.starts_reached else Look(failure=_first(crawl, url))

    async def crawl(self, plan: CrawlPlan, seen: Seen) -> Crawl:
        context = self._context
        pagination = plan.following.pagination
        reader = self._reader
        if pagination is not None and pagination.marks != NO_MARKS:
            reader = PageReader(plan.extraction, marks=pagination.marks)
            self._stack.push_async_callback(reader.close)
        crawl = Crawl(
            plan,
            fetcher=self._fetcher,
            reader=reader,
            gathered=seen,
            report=context,
            gate=context.gate,
            robots=context.robots if plan.is_plain else None,
            is_own_address=self._proxies is None,
            outages=self._outages,
        )
        await crawl.run()
        return crawl


def item_of(product: Product) -> dict[str, Any]:
    """A product among the items of a task."""
    return {
        "product_id": product.id,
        "shop": product.shop,
        "title": product.title,
        "price": product.price,
        "currency": product.currency,
        "availability": product.availability,
        **_named_apart(product.attributes),
        "_url": product.url,
    }


def gone(product_id: str, url: str) -> Product:
    return Product(shop_of(url), product_id, url, is_gone=True)


def _named_apart(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in ("product_id", "shop", "title", "price")}


def _first(crawl: Crawl, url: str) -> PageFailed:
    """One that may pass decides, so that the task is tried again."""
    failures = sorted(crawl.start_failures, key=lambda failure: failure.permanent)
    return failures[0] if failures else PageFailed("timeout", f"{url}: was not reached")
