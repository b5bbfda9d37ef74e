"""Crawls a shop and keeps every product that it meets; or looks again at those that were not met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import INSTANT, crawling
from crawlfleet.execution.sdk import Executor, TaskContext

KNOWN_ONLY = {
    "type": "boolean",
    "description": "visit only products that are known of this shop and were not seen since `since`",
}


class ShopCrawl(Executor):
    task_type = "shop_crawl"
    schema = crawling(
        "url", url=URL, known_only=KNOWN_ONLY, since=INSTANT, shop={"type": "string", "minLength": 1, "maxLength": 270}
    )

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import crawl_problems

        return crawl_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import Shopper
        from crawlfleet.execution.executors.shops.sync_steps import crawl_shop, look_at_known

        async with Shopper(context, context.parameters) as shopper:
            if context.parameters.get("known_only", False):
                return await look_at_known(context, shopper, context.parameters.get("shop"))
            return await crawl_shop(context, shopper)
