"""Brings the products of a shop up to date, and tells which are new, which have changed and which are gone.

Submitted by itself it is a flow: `shop_crawl`, `search_keywords` where words are given, `shop_crawl` again for products
that were not met, and this task, which only reports. As part of something else it does all of that itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import INSTANT, KEYWORDS, SEARCH_URL, crawling
from crawlfleet.execution.sdk import Executor, TaskContext

_STEPS = {"type": "object", "description": "set by the flow: what its steps gave", "x-internal": True}


class FullSync(Executor):
    task_type = "full_sync"
    schema = crawling("url", url=URL, search_url=SEARCH_URL, keywords=KEYWORDS, since=INSTANT, steps=_STEPS)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import crawl_problems, search_problems

        found = search_problems(parameters, "search_url")
        for one, other in (("keywords", "search_url"), ("search_url", "keywords")):
            if one in parameters and other not in parameters:
                found.append((other, f"is needed with {one}"))
        return found + crawl_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import Shopper
        from crawlfleet.execution.executors.shops.sync_steps import crawl_shop, look_at_known, report, search

        parameters = context.parameters
        if "steps" in parameters:
            return await report(context, parameters["steps"])
        steps: dict[str, Any] = {}
        async with Shopper(context, parameters) as shopper:
            steps["crawl"] = await crawl_shop(context, shopper)
            if "keywords" in parameters:
                steps["search"] = await search(context, shopper, parameters["search_url"], parameters["keywords"])
            steps["check"] = await look_at_known(context, shopper, steps["crawl"]["shop"])
        return await report(context, steps)
