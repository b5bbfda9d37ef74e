"""Task type `full_sync`: updates the products of a shop, and reports which are new, changed and gone.

Submitted by itself it is a flow: `shop_crawl`, `search_keywords` where words are given, `shop_crawl` again for products
that were not seen, and this task, which only reports. As part of another flow it does all of that itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import INSTANT, KEYWORDS, SEARCH_URL, crawl_schema
from crawlfleet.execution.sdk import Executor, TaskContext

_STEPS = {"type": "object", "description": "set by the flow: what its steps gave", "x-internal": True}


class FullSync(Executor):
    task_type = "full_sync"
    schema = crawl_schema("url", url=URL, search_url=SEARCH_URL, keywords=KEYWORDS, since=INSTANT, steps=_STEPS)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import crawl_problems, search_problems

        problems = search_problems(parameters, "search_url")
        for given, needed in (("keywords", "search_url"), ("search_url", "keywords")):
            if given in parameters and needed not in parameters:
                problems.append((needed, f"is needed with {given}"))
        return problems + crawl_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
        from crawlfleet.execution.executors.shops.sync_steps import (
            check_known_products,
            crawl_shop,
            report_changes,
            search_shop,
        )

        parameters = context.parameters
        if "steps" in parameters:
            return await report_changes(context, parameters["steps"])
        steps: dict[str, Any] = {}
        async with ProductCrawler(context, parameters) as shopper:
            steps["crawl"] = await crawl_shop(context, shopper)
            if "keywords" in parameters:
                steps["search"] = await search_shop(context, shopper, parameters["search_url"], parameters["keywords"])
            steps["check"] = await check_known_products(context, shopper, steps["crawl"]["shop"])
        return await report_changes(context, steps)
