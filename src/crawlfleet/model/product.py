"""Products of shops, as their pages show them: a set per project and shop, each identified by its shop's own id."""

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
"""Hash of project, shop and id, so that the row of a product that is seen again is found without a search."""

ID_CHARS = 200
SHOP_CHARS = 270
TITLE_CHARS = 500
URL_CHARS = 4_096
AMOUNT_CHARS = 40
WORD_CHARS = 40
ATTRIBUTES_BYTES = 16 << 10
BATCH_PRODUCTS = 500
"""Largest number of products that are written at once."""
CHANGES_KEPT = 50
"""Number of changes that are kept of one product; older ones are removed."""
UNSTEADY = frozenset({"rating", "reviews", "sources"})
"""Attributes that vary by themselves: a difference in them is no change of the product."""


class Product(NamedTuple):
    """A product as its page shows it, or would if it still existed."""

    shop: str
    id: str
    url: str
    title: str = ""
    price: str | None = None
    """Exact amount, such as 1299 or 12.50."""
    currency: str | None = None
    availability: str | None = None
    attributes: Mapping[str, Any] = {}
    is_gone: bool = False
    """Whether its page reports that the product no longer exists; nothing else is known then."""


class ChangeKind(Word):
    """The kind of a change of a product."""

    NEW = 1
    CHANGED = 2
    GONE = 3
    BACK = 4
    """The product was gone, and is there again."""


@dataclass(frozen=True, slots=True)
class ProductRecord:
    """A product as it is stored."""

    key: ProductKey
    project: str
    product: Product
    hash: str
    """Hash of the content, by which changes are found."""
    first_seen_at: Instant
    listed_at: Instant
    """Instant since which the product is listed without a break."""
    changed_at: Instant
    seen_at: Instant
    gone_at: Instant | None
    changes: int
    execution: ExecutionId
    """Id of the execution that saw the product last."""


class ProductChange(NamedTuple):
    """One change of a product."""

    number: int
    """Number of the change among those of the product."""
    at: Instant
    kind: ChangeKind
    fields: Mapping[str, Any]
    """Old and new value, by field."""
    execution: ExecutionId


class SyncCounts(NamedTuple):
    """The numbers of a shop's products by what changed since an instant: the sets before and after are compared."""

    new: int = 0
    changed: int = 0
    gone: int = 0
    unchanged: int = 0
    unsure: int = 0
    """Number of products not seen since, and not known to be gone."""


def product_key(project: str, shop: str, product_id: str) -> ProductKey:
    # NUL is in none of them.
    digest = blake2b(f"{project}\0{shop}\0{product_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1 or 1


def product_text(key: ProductKey) -> str:
    return f"product-{key:016x}"


def content_hash(product: Product) -> str:
    """Return the hash of everything that makes it another product to a customer; its address does not."""
    steady = {name: value for name, value in product.attributes.items() if name not in UNSTEADY}
    said = (product.title, product.price, product.currency, product.availability, steady)
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()
