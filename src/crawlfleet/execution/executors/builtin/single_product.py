"""Task type `single_product`: visits the page of one product and stores it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import PRODUCT_ID, visit_schema
from crawlfleet.execution.sdk import Executor, TaskContext


class SingleProduct(Executor):
    task_type = "single_product"
    schema = visit_schema("url", url=URL, product_id=PRODUCT_ID)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import visit_problems

        return visit_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
        from crawlfleet.execution.executors.shops.product_visits import visit_product

        parameters = context.parameters
        async with ProductCrawler(context, parameters) as shopper:
            return await visit_product(context, shopper, parameters["url"], parameters.get("product_id"))
