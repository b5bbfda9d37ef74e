"""Products of shops: a set per project and shop, upserted by id. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.product import ChangeKind, Product, ProductChange, ProductKey, ProductRecord, SyncCounts
from crawlfleet.ports.record_page import RecordPage


class ProductBatch(NamedTuple):
    """Products that a live execution has seen."""

    node: NodeId
    task: TaskId
    execution: ExecutionId
    products: Sequence[Product]


class ProductFilter(NamedTuple):
    """The conditions of a list of products."""

    project: str | None = None
    shop: str | None = None
    product_id: str | None = None
    """The shop's own id of the product, exactly."""
    changed_since: Instant | None = None
    """Instant since which the product is new, changed, gone or back."""
    is_gone: bool | None = None


class ProductStore(Protocol):
    """Access to products. `TaskStore.complete` writes an outcome's products in the transaction that accepts it."""

    async def put_products(self, batch: ProductBatch, now: Instant) -> bool:
        """Write products. Returns False, and writes nothing, when the execution is no longer live.

        The same batch again changes nothing but when its products were seen.
        """
        ...

    async def products(
        self, where: ProductFilter, limit: int, after: ProductKey | None = None
    ) -> RecordPage[ProductRecord]:
        """Return a page of products in order of their keys."""
        ...

    async def product(self, key: ProductKey) -> ProductRecord | None: ...

    async def product_changes(self, key: ProductKey) -> list[ProductChange]:
        """Return the changes of a product, the newest first; only the last `CHANGES_KEPT` are kept."""
        ...

    async def unseen_products(
        self, project: str, shop: str, since: Instant, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        """Return products that were not seen since then and are not known to be gone, in order of their keys."""
        ...

    async def sync_counts(self, project: str, shop: str, since: Instant) -> SyncCounts: ...

    async def synced_products(
        self, project: str, shop: str, since: Instant, kind: ChangeKind, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        """Return the products that are new, changed or gone since then, as `sync_counts` counts them."""
        ...
