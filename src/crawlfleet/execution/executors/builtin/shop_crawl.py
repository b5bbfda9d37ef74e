"""Task type `shop_crawl`: crawls a shop and stores every product it finds; or revisits those that were not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import INSTANT, crawl_schema
from crawlfleet.execution.sdk import Executor, TaskContext

KNOWN_ONLY = {
    "type": "boolean",
    "description": "visit only products that are known of this shop and were not seen since `since`",
}


class ShopCrawl(Executor):
    task_type = "shop_crawl"
    schema = crawl_schema(
        "url", url=URL, known_only=KNOWN_ONLY, since=INSTANT, shop={"type": "string", "minLength": 1, "maxLength": 270}
    )

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import crawl_problems

        return crawl_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
        from crawlfleet.execution.executors.shops.sync_steps import check_known_products, crawl_shop

        async with ProductCrawler(context, context.parameters) as shopper:
            if context.parameters.get("known_only", False):
                return await check_known_products(context, shopper, context.parameters.get("shop"))
            return await crawl_shop(context, shopper)
