"""Products of shops, as their pages show them: a set per project and shop, each known by the id its shop gives it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word

ProductKey = int
"""Made of project, shop and id, so that whoever sees a product anew finds its row without looking for it."""

ID_CHARS = 200
SHOP_CHARS = 270
TITLE_CHARS = 500
URL_CHARS = 4_096
AMOUNT_CHARS = 40
WORD_CHARS = 40
ATTRIBUTES_BYTES = 16 << 10
BATCH_PRODUCTS = 500
"""That are written at once."""
CHANGES_KEPT = 50
"""Of one product; older ones are forgotten."""
UNSTEADY = frozenset({"rating", "reviews", "sources"})
"""Attributes that move by themselves: a product is no other for them."""


class Product(NamedTuple):
    """As a page shows it, or would if it were still there."""

    shop: str
    id: str
    url: str
    title: str = ""
    price: str | None = None
    """An exact amount: 1299, 12.50."""
    currency: str | None = None
    availability: str | None = None
    attributes: Mapping[str, Any] = {}
    is_gone: bool = False
    """Its page says that there is no such product any more; nothing else is known then."""


class ChangeKind(Word):
    NEW = 1
    CHANGED = 2
    GONE = 3
    BACK = 4
    """It was gone, and is there again."""


@dataclass(frozen=True, slots=True)
class ProductRecord:
    """What is kept of a product."""

    key: ProductKey
    project: str
    product: Product
    hash: str
    first_seen_at: Instant
    listed_at: Instant
    """Since when it is there without a break."""
    changed_at: Instant
    seen_at: Instant
    gone_at: Instant | None
    changes: int
    execution: ExecutionId
    """That saw it last."""


class ProductChange(NamedTuple):
    number: int
    at: Instant
    kind: ChangeKind
    fields: Mapping[str, Any]
    """What it was and what it became, by field."""
    execution: ExecutionId


class SyncCounts(NamedTuple):
    """What became of a shop's products since an instant: as sets, before and after."""

    new: int = 0
    changed: int = 0
    gone: int = 0
    unchanged: int = 0
    unsure: int = 0
    """Not seen since, and not known to be gone."""


def key_of(project: str, shop: str, product_id: str) -> ProductKey:
    # NUL is in none of them.
    digest = blake2b(f"{project}\0{shop}\0{product_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 or 1


def product_text(key: ProductKey) -> str:
    return f"product-{key:016x}"


def content_hash(product: Product) -> str:
    """Of all that makes it another product to a customer; its address does not."""
    steady = {name: value for name, value in product.attributes.items() if name not in UNSTEADY}
    said = (product.title, product.price, product.currency, product.availability, steady)
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()
