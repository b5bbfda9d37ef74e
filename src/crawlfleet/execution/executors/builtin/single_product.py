"""Looks at the page of one product and keeps what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.shops.shop_schema import PRODUCT_ID, visiting
from crawlfleet.execution.sdk import Executor, TaskContext


class SingleProduct(Executor):
    task_type = "single_product"
    schema = visiting("url", url=URL, product_id=PRODUCT_ID)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import visit_problems

        return visit_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import Shopper
        from crawlfleet.execution.executors.shops.product_visits import looked_at

        parameters = context.parameters
        async with Shopper(context, parameters) as shopper:
            return await looked_at(context, shopper, parameters["url"], parameters.get("product_id"))
