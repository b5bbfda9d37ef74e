"""Task type `search_keywords`: calls a shop's own search with keywords, and stores the products it finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.shops.shop_schema import KEYWORDS, SEARCH_URL, crawl_schema
from crawlfleet.execution.sdk import Executor, TaskContext


class SearchKeywords(Executor):
    task_type = "search_keywords"
    schema = crawl_schema("url", "keywords", url=SEARCH_URL, keywords=KEYWORDS)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import crawl_problems, search_problems

        return search_problems(parameters, "url") or crawl_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
        from crawlfleet.execution.executors.shops.sync_steps import search_shop

        async with ProductCrawler(context, context.parameters) as shopper:
            return await search_shop(context, shopper, context.parameters["url"], context.parameters["keywords"])
