"""Looks at the page of one product and keeps what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.builtin.web_crawl import URL
from crawlfleet.execution.executors.sdk import Executor, TaskContext
from crawlfleet.execution.executors.shop_schema import PRODUCT_ID, visiting


class SingleProduct(Executor):
    task_type = "single_product"
    schema = visiting("url", url=URL, product_id=PRODUCT_ID)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shop_checks import visit_problems

        return visit_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shop_visits import looked_at
        from crawlfleet.execution.executors.shopping import Shopper

        parameters = context.parameters
        async with Shopper(context, parameters) as shopper:
            return await looked_at(context, shopper, parameters["url"], parameters.get("product_id"))
