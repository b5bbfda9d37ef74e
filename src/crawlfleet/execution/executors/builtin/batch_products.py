"""Task type `batch_products`: visits many products by their URLs, one batch after the other.

Submitted by itself it is a flow: a child for every URL (`single_product`, at one priority lower), and this task, which
only summarises how they ended. As part of another flow it visits them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.shops.shop_schema import BATCH_SIZE, DEFAULT_BATCH_SIZE, URLS, visit_schema
from crawlfleet.execution.sdk import Executor, TaskContext

_CHILDREN = {
    "type": "array",
    "x-internal": True,
    "description": "set by the flow: how the children of each batch ended",
    "items": {
        "type": "object",
        "properties": {"ids": {"type": "array"}, "reasons": {"type": "object"}},
        "required": ["ids", "reasons"],
        "additionalProperties": False,
    },
}


class BatchProducts(Executor):
    task_type = "batch_products"
    schema = visit_schema("urls", urls=URLS, batch_size=BATCH_SIZE, children=_CHILDREN)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import visit_problems

        return visit_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
        from crawlfleet.execution.executors.shops.product_visits import summarise_visits, visit_products

        parameters = context.parameters
        if "children" in parameters:
            return await summarise_visits(context, _child_details(parameters["urls"], parameters["children"]))
        async with ProductCrawler(context, parameters) as shopper:
            size = parameters.get("batch_size", DEFAULT_BATCH_SIZE)
            return await visit_products(context, shopper, parameters["urls"], size)


def _child_details(urls: list[str], children: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one detail per URL, in the order of the URLs and of the children."""
    endings = [
        (product_id, batch["reasons"].get(str(index), "did not complete"))
        for batch in children
        for index, product_id in enumerate(batch["ids"])
    ]
    endings += [(None, "was not looked at")] * (len(urls) - len(endings))
    return [
        {"product_id": product_id, "url": url, "status": "success"}
        if product_id is not None
        else {"product_id": None, "url": url, "status": "failed", "error": reason}
        for url, (product_id, reason) in zip(urls, endings, strict=False)
    ]
