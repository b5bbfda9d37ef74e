"""Products that tasks of the shop family keep: what they look like now, what has changed, and all of them as a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import msgspec
from fastapi import Depends, Path, Query
from starlette.responses import Response, StreamingResponse

from crawlfleet.api.http.auth import allow
from crawlfleet.api.http.parameters import DEFAULT_PAGE_RECORDS, Cursor, Limit, Name, Text, parse_cursor, parse_path_id
from crawlfleet.api.http.responses import ResponseSpec, json_response
from crawlfleet.api.http.route_table import RouteTable
from crawlfleet.api.http.services import TheServices
from crawlfleet.api.routes import PREFIX
from crawlfleet.api.views.tasks import Time
from crawlfleet.control.composites.products import Products
from crawlfleet.errors import InvalidInput
from crawlfleet.model.ids import execution_text
from crawlfleet.model.instants import from_text, to_text
from crawlfleet.model.principal import Principal, Role
from crawlfleet.model.product import ID_CHARS, SHOP_CHARS, ProductChange, ProductKey, ProductRecord, product_text
from crawlfleet.ports.composite_store import ProductFilter
from crawlfleet.results.csv_table import CsvTable
from crawlfleet.results.table_columns import Column
from crawlfleet.wire.schema_errors import shorten_text

routes = RouteTable("products", PREFIX)
EXPORT_PAGE = 1_000
_encode = msgspec.json.Encoder().encode

ChangeWord = Literal["new", "changed", "gone", "back"]


class ProductView(msgspec.Struct, frozen=True):
    id: str
    project_id: str
    shop: str
    """The host it is sold at."""
    product_id: str
    """The shop's own id of it, or the path of its page where it has none."""
    url: str
    title: str
    price: str | None
    """An exact amount."""
    currency: str | None
    availability: str | None
    attributes: dict[str, Any]
    first_seen_at: Time
    changed_at: Time
    """When it was first seen, changed, found gone or back, last."""
    seen_at: Time
    gone_at: Time | None


class ProductChangeView(msgspec.Struct, frozen=True):
    at: Time
    kind: ChangeWord
    fields: dict[str, Any]
    """What each was and what it became."""
    execution_id: str


class ProductDetail(msgspec.Struct, frozen=True):
    product: ProductView
    changes: list[ProductChangeView]
    """The newest first; the last 50 are kept."""


class ProductPage(msgspec.Struct, frozen=True):
    products: list[ProductView]
    next_cursor: str | None


async def _product_filter(
    project_id: Annotated[Name | None, Query(description="Only those of this project.")] = None,
    shop: Annotated[
        Text | None, Query(max_length=SHOP_CHARS, description="A host, with its port where that is an unusual one.")
    ] = None,
    product_id: Annotated[Text | None, Query(max_length=ID_CHARS, description="The shop's own id, exactly.")] = None,
    changed_since: Annotated[
        Text | None, Query(description="An instant: only those that are new, changed, gone or back since then.")
    ] = None,
    gone: Annotated[bool | None, Query(description="Only those that are gone, or only the others.")] = None,
) -> ProductFilter:
    since = None
    if changed_since is not None:
        try:
            since = from_text(changed_since)
        except (ValueError, OverflowError) as exc:
            raise InvalidInput(shorten_text(str(exc)), field="changed_since") from exc
    return ProductFilter(project_id, None if shop is None else shop.lower(), product_id, since, gone)


Where = Annotated[ProductFilter, Depends(_product_filter)]


async def _product_in_path(
    product_id: Annotated[
        str, Path(json_schema_extra={"pattern": "^product-[0-9a-f]{16}$", "example": "product-0123456789abcdef"})
    ],
) -> ProductKey:
    return parse_path_id(product_id, "product")


ProductInPath = Annotated[ProductKey, Depends(_product_in_path)]


@routes.get("/products", ResponseSpec(ProductPage, "In an order of their own, which stays."))
async def list_products(
    where: Where,
    services: TheServices,
    limit: Limit = DEFAULT_PAGE_RECORDS,
    cursor: Cursor = None,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    records = await services.products.list_products(where, limit, parse_cursor(cursor, "product"))
    next_cursor = product_text(records[-1].key) if records.has_more else None
    return json_response(ProductPage([product_view(record) for record in records], next_cursor))


@routes.get(
    "/products:export",
    ResponseSpec(
        {kind: {"type": "string", "format": "binary"} for kind in ("application/x-ndjson", "text/csv")}, "The file."
    ),
)
async def export_products(
    where: Where,
    services: TheServices,
    format: Annotated[Literal["jsonl", "csv"], Query(description="What kind of file.")] = "jsonl",
    bom: Annotated[bool, Query(description="CSV: begin with the mark that Excel knows UTF-8 by.")] = False,
    guard: Annotated[bool, Query(description="CSV: an apostrophe before texts that a spreadsheet would run.")] = False,
    _: Principal = allow(Role.VIEWER),
) -> Response:
    """All products that the filters leave, as one file."""
    if (bom or guard) and format != "csv":
        raise InvalidInput("is for CSV", field="bom" if bom else "guard")
    lines = _product_lines(services.products, where)
    headers = {"Content-Disposition": f'attachment; filename="products.{format}"'}
    if format == "jsonl":
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)
    columns = [Column(name, "text") for name in ProductView.__struct_fields__]
    table = CsvTable(columns, bom=bom, guard=guard)
    return StreamingResponse(_csv_rows(table, lines), media_type="text/csv; charset=utf-8", headers=headers)


@routes.get("/products/{product_id}", ProductDetail, name="show")
async def show_product(product: ProductInPath, services: TheServices, _: Principal = allow(Role.VIEWER)) -> Response:
    """A product, with what has changed."""
    record, changes = await services.products.get_product(product)
    return json_response(ProductDetail(product_view(record), [_change_view(change) for change in changes]))


def product_view(record: ProductRecord) -> ProductView:
    fields = record.product
    return ProductView(
        product_text(record.key),
        record.project,
        fields.shop,
        fields.id,
        fields.url,
        fields.title,
        fields.price,
        fields.currency,
        fields.availability,
        dict(fields.attributes),
        to_text(record.first_seen_at),
        to_text(record.changed_at),
        to_text(record.seen_at),
        None if record.gone_at is None else to_text(record.gone_at),
    )


def _change_view(change: ProductChange) -> ProductChangeView:
    words: dict[int, ChangeWord] = {1: "new", 2: "changed", 3: "gone", 4: "back"}
    return ProductChangeView(
        to_text(change.at), words[change.kind], dict(change.fields), execution_text(change.execution)
    )


async def _product_lines(products: Products, where: ProductFilter) -> AsyncIterator[bytes]:
    after: ProductKey | None = None
    while records := await products.list_products(where, EXPORT_PAGE, after):
        yield b"".join(_encode(product_view(record)) + b"\n" for record in records)
        after = records[-1].key


async def _csv_rows(table: CsvTable, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield table.begin_file()
    async for some in lines:
        yield table.add_lines(some)
    yield table.end_file()
