"""Calls for products, which tasks of the shop family store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from crawlfleet.client._generated.models import ProductDetail, ProductPage, ProductView
from crawlfleet.client.nouns.base import Calls, quote_segment
from crawlfleet.client.transport.http import Params

_PAGE = 500
_READ_BYTES = 1 << 20
_PATIENCE_S = 900.0


class ProductCalls(Calls):
    async def products(
        self,
        *,
        project_id: str | None = None,
        shop: str | None = None,
        product_id: str | None = None,
        changed_since: str | None = None,
        gone: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ProductView]:
        """Page after page. `product_id` is the shop's own, `changed_since` an instant as text; `gone` shows only those
        that are gone, or only the others."""
        left, cursor = limit, None
        where = _product_filter(project_id, shop, product_id, changed_since, gone)
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            page = await self._transport.get(ProductPage, "/products", {**where, "limit": size, "cursor": cursor})
            for product in page.products:
                yield product
            left, cursor = None if left is None else left - len(page.products), page.next_cursor
            if cursor is None:
                return

    async def product(self, id: str) -> ProductDetail:
        """With its last changes."""
        return await self._transport.get(ProductDetail, f"/products/{quote_segment(id)}")

    async def export_products(
        self,
        *,
        format: Literal["jsonl", "csv"] = "jsonl",
        project_id: str | None = None,
        shop: str | None = None,
        product_id: str | None = None,
        changed_since: str | None = None,
        gone: bool | None = None,
        bom: bool = False,
        guard: bool = False,
    ) -> AsyncIterator[bytes]:
        """All of them as a file, as it comes."""
        where = _product_filter(project_id, shop, product_id, changed_since, gone)
        params: Params = {**where, "format": format, "bom": str(bom).lower(), "guard": str(guard).lower()}
        async with self._transport.open_response("/products:export", params=params, read_s=_PATIENCE_S) as answer:
            while data := await answer.content.read(_READ_BYTES):
                yield data


def _product_filter(
    project_id: str | None, shop: str | None, product_id: str | None, changed_since: str | None, gone: bool | None
) -> dict[str, str | None]:
    return {
        "project_id": project_id,
        "shop": shop,
        "product_id": product_id,
        "changed_since": changed_since,
        "gone": None if gone is None else str(gone).lower(),
    }
