"""Looks at many products by their addresses, a batch after the other.

Submitted by itself it is a flow: a child for every address (`single_product`, at one priority lower), and this task,
which only puts together how they ended. As part of something else it looks at them itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlfleet.execution.executors.shops.shop_schema import BATCH_SIZE, BATCH_USUAL, URLS, visiting
from crawlfleet.execution.sdk import Executor, TaskContext

_ENDED = {
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
    schema = visiting("urls", urls=URLS, batch_size=BATCH_SIZE, children=_ENDED)

    @classmethod
    def problems(cls, parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
        from crawlfleet.execution.executors.shops.shop_checks import visit_problems

        return visit_problems(parameters)

    async def run(self, context: TaskContext) -> Any:
        from crawlfleet.execution.executors.shops.product_crawler import Shopper
        from crawlfleet.execution.executors.shops.product_visits import looked_at_all, summary

        parameters = context.parameters
        if "children" in parameters:
            return await summary(context, _details(parameters["urls"], parameters["children"]))
        async with Shopper(context, parameters) as shopper:
            size = parameters.get("batch_size", BATCH_USUAL)
            return await looked_at_all(context, shopper, parameters["urls"], size)


def _details(urls: list[str], children: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """In the order of the URLs, as the children are."""
    ended = [
        (product_id, batch["reasons"].get(str(at), "did not complete"))
        for batch in children
        for at, product_id in enumerate(batch["ids"])
    ]
    ended += [(None, "was not looked at")] * (len(urls) - len(ended))
    return [
        {"product_id": product_id, "url": url, "status": "success"}
        if product_id is not None
        else {"product_id": None, "url": url, "status": "failed", "error": reason}
        for url, (product_id, reason) in zip(urls, ended, strict=False)
    ]
