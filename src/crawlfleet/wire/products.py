"""Messages that carry products from an execution to a master, and queries of an execution about them; fields by
position, as in `wire.sync`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from crawlfleet.model import product as model
from crawlfleet.model.product import Product
from crawlfleet.wire.tasks import storage_problem

OUTCOME_PRODUCTS = 100
"""Maximum number of products that are sent with an outcome; an execution that sees more sends them in batches while it
runs."""
BODY_BYTES = 16 << 20
ANSWER_PRODUCTS = 1_000

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=model.ID_CHARS)]
Shop = Annotated[str, msgspec.Meta(min_length=1, max_length=model.SHOP_CHARS)]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=model.URL_CHARS)]
Word = Annotated[str, msgspec.Meta(max_length=model.WORD_CHARS)]
Instant = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Key = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class ProductBody(msgspec.Struct, array_like=True, frozen=True):
    """A product as it is sent: `model.product.Product`."""

    shop: Shop
    id: Id
    url: Url
    title: Annotated[str, msgspec.Meta(max_length=model.TITLE_CHARS)] = ""
    price: Annotated[str, msgspec.Meta(max_length=model.AMOUNT_CHARS)] | None = None
    currency: Word | None = None
    availability: Word | None = None
    attributes: dict[str, Any] = {}
    is_gone: bool = False


class ProductsUp(msgspec.Struct, array_like=True, frozen=True):
    products: Annotated[list[ProductBody], msgspec.Meta(max_length=model.BATCH_PRODUCTS)]


class UnseenUp(msgspec.Struct, array_like=True, frozen=True):
    """Query for the products of a shop that have not been seen since a given instant."""

    shop: Shop
    since: Instant
    after: Key = 0
    """Key of the last product of the answer before."""


class UnseenBody(msgspec.Struct, array_like=True, frozen=True):
    key: int
    id: str
    url: str


class UnseenDown(msgspec.Struct, array_like=True, frozen=True):
    products: list[UnseenBody] = []


class ReportUp(msgspec.Struct, array_like=True, frozen=True):
    """Query for the changes of a shop's products since a given instant."""

    shop: Shop
    since: Instant
    kind: str = ""
    """Kind of products to return: `new`, `changed` or `gone`; the empty string returns only the counts."""
    after: Key = 0


class ReportDown(msgspec.Struct, array_like=True, frozen=True):
    counts: list[int]
    """Counts of the products, in the order of `model.product.SyncCounts`."""
    products: list[tuple[int, ProductBody]] = []
    """Products, each with its key."""


_BODY_DECODER = msgspec.json.Decoder(ProductBody)
_encode = msgspec.json.Encoder().encode


def product_body(product: Product) -> ProductBody:
    return ProductBody(*product[:7], dict(product.attributes), product.is_gone)


def product_from_body(body: ProductBody) -> Product:
    """Return the product of a body. Raises ValueError, with the field first, for what cannot be stored."""
    for name in ("shop", "id", "url", "title", "price", "currency", "availability"):
        text = getattr(body, name)
        if text is not None and (problem := storage_problem(text)):
            raise ValueError(f"{name}: {problem}")
    size = len(_encode(body.attributes))
    if size > model.ATTRIBUTES_BYTES:
        raise ValueError(f"attributes: {size} bytes; at most {model.ATTRIBUTES_BYTES} are taken")
    return Product(
        body.shop,
        body.id,
        body.url,
        body.title,
        body.price,
        body.currency,
        body.availability,
        body.attributes,
        body.is_gone,
    )


def decode_products(raws: Sequence[msgspec.Raw]) -> list[Product]:
    """Return the products of an outcome. Raises ValueError that names the wrong one and its field."""
    if len(raws) > OUTCOME_PRODUCTS:
        raise ValueError(f"{len(raws)} products; at most {OUTCOME_PRODUCTS} come with an outcome")
    products = []
    for index, raw in enumerate(raws):
        try:
            products.append(product_from_body(_BODY_DECODER.decode(raw)))
        except (ValueError, RecursionError) as exc:
            # The exceptions of the decoder are ValueErrors, too.
            raise ValueError(f"products[{index}]: {exc}") from exc
    return products
