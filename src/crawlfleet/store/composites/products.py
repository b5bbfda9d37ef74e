"""Products: one row each, found by a key that is made of project, shop and id.

A writer holds a live execution of a task until the commit: for an outcome in the transaction that accepts it, for a
batch by the row of its task. So a product is never written by an execution that was replaced meanwhile. Rows are
locked in order of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, case, func, select

from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.instants import Instant
from crawlfleet.model.product import (
    CHANGES_KEPT,
    ChangeKind,
    Product,
    ProductChange,
    ProductKey,
    ProductRecord,
    SyncCounts,
    product_key,
)
from crawlfleet.ports.composite_store import ProductBatch, ProductFilter
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.scheduling.crawls.product_changes import ProductUpdate, compare_product
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.row_codec import RowCodec

PRODUCTS = RowCodec(
    schema.product,
    ProductRecord,
    columns={"product.id": "product_id"},
    formats={"product.attributes": row_codec.JSON},
    omitted=("product.is_gone",),
)
_SEEN = PRODUCTS.column_writer("key", "url", "attributes", "seen_at", "execution")
_CHANGES = RowCodec(schema.product_change, ProductChange, formats={"fields": row_codec.JSON})
HOLD_WRITER = (
    "SELECT t.project FROM live l JOIN task t ON t.id = l.id "
    "WHERE l.id = $1 AND l.execution = $2 AND l.node = $3 SHARE_ROWS(l)"
)
LOCK_PRODUCTS = f"SELECT {PRODUCTS.select} FROM product WHERE key AMONG($1) ORDER BY key LOCK_ROWS(product)"
CHANGES = f"SELECT {_CHANGES.select} FROM product_change WHERE product = $1 ORDER BY number DESC"
FORGET_CHANGES = (
    "DELETE FROM product_change WHERE product AMONG($1) AND number <= "
    f"(SELECT p.changes - {CHANGES_KEPT} FROM product p WHERE p.key = product_change.product)"
)
# Locked in the order in which writers of products lock them. A product that came back meanwhile is passed over.
GONE_LONG = (
    "SELECT key, changes FROM product "
    "WHERE key IN (SELECT key FROM product WHERE gone_at < $1 ORDER BY gone_at LIMIT $2) "
    "AND gone_at < $1 ORDER BY key LOCK_ROWS(product)"
)
CHANGES_PER_PRODUCT = 10
"""Average number of changes per product that one transaction deletes, as a limit."""


class ProductSighting(NamedTuple):
    project: str
    execution: ExecutionId
    product: Product


class ProductTables:
    _engine: QueryEngine

    async def put_products(self, batch: ProductBatch, now: Instant) -> bool:
        async def write_batch(tx: Tx) -> bool:
            projects = await tx.fetch(HOLD_WRITER, batch.task, batch.execution, batch.node)
            if not projects:
                return False
            ((project,),) = projects
            await put_products(
                tx, [ProductSighting(project, batch.execution, product) for product in batch.products], now
            )
            return True

        return await self._engine.write(write_batch)

    async def list_products(
        self, where: ProductFilter, limit: int, after: ProductKey | None = None
    ) -> RecordPage[ProductRecord]:
        product = schema.product.c
        query = select(*PRODUCTS.selected).order_by(product.key).limit(limit + 1)
        if after is not None:
            query = query.where(product.key > after)
        if where.project is not None:
            query = query.where(product.project == where.project)
        if where.shop is not None:
            query = query.where(product.shop == where.shop)
        if where.product_id is not None:
            query = query.where(product.product_id == where.product_id)
        if where.changed_since is not None:
            query = query.where(product.changed_at >= where.changed_since)
        if where.is_gone is not None:
            query = query.where(product.gone_at.is_not(None) if where.is_gone else product.gone_at.is_(None))
        page = await self._engine.read_page(query, limit)
        return RecordPage(PRODUCTS.from_rows(page.rows), has_more=page.has_more)

    async def find_product(self, key: ProductKey) -> ProductRecord | None:
        records = await self._query_products(select(*PRODUCTS.selected).where(schema.product.c.key == key))
        return records[0] if records else None

    async def product_changes(self, key: ProductKey) -> list[ProductChange]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(CHANGES, key))
        return _CHANGES.from_rows(rows)

    async def unseen_products(
        self, project: str, shop: str, since: Instant, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        product = schema.product.c
        unseen = and_(product.seen_at < since, product.gone_at.is_(None))
        return await self._query_products(_shop_query(project, shop, after).where(unseen).limit(limit))

    async def sync_counts(self, project: str, shop: str, since: Instant) -> SyncCounts:
        product = schema.product.c
        kinds = _kind_conditions(since)
        counted = [func.coalesce(func.sum(case((kinds[name], 1), else_=0)), 0) for name in SyncCounts._fields]
        query = select(*counted).where(product.project == project, product.shop == shop)
        ((*counts,),) = await self._engine.run_query(query)
        return SyncCounts(*map(int, counts))

    async def synced_products(
        self, project: str, shop: str, since: Instant, kind: ChangeKind, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        query = _shop_query(project, shop, after).where(_kind_conditions(since)[kind.word]).limit(limit)
        return await self._query_products(query)

    async def _query_products(self, query: Select[Any]) -> list[ProductRecord]:
        return PRODUCTS.from_rows(await self._engine.run_query(query))


def _shop_query(project: str, shop: str, after: ProductKey) -> Select[Any]:
    product = schema.product.c
    of_shop = and_(product.project == project, product.shop == shop, product.key > after)
    return select(*PRODUCTS.selected).where(of_shop).order_by(product.key)


def _kind_conditions(since: Instant) -> dict[str, ColumnElement[bool]]:
    """Return conditions of the sets of products in a span: a product that came and went within it is neither new nor
    gone."""
    product = schema.product.c
    is_there, was_there = product.gone_at.is_(None), product.listed_at < since
    return {
        "new": and_(is_there, product.listed_at >= since),
        "changed": and_(is_there, was_there, product.changed_at >= since),
        "gone": and_(product.gone_at >= since, was_there),
        "unchanged": and_(is_there, was_there, product.changed_at < since, product.seen_at >= since),
        "unsure": and_(is_there, was_there, product.changed_at < since, product.seen_at < since),
    }


async def put_products(tx: Tx, sightings: Sequence[ProductSighting], now: Instant) -> None:
    """Write products in the caller's transaction, which holds the executions that saw them. If a product was seen
    several times, the last sighting counts."""
    by_key = {product_key(seen.project, seen.product.shop, seen.product.id): seen for seen in sightings}
    keys = sorted(by_key)
    locked = PRODUCTS.from_rows(await tx.fetch(LOCK_PRODUCTS, keys)) if keys else []
    stored = {record.key: record for record in locked}
    new_keys = [key for key in keys if key not in stored]
    new = [update for key in new_keys if (update := _compare_sighting(None, by_key[key], now)) is not None]
    if new:
        await tx.insert_new(schema.product, PRODUCTS.columns, PRODUCTS.to_rows(update.after for update in new))
        # A concurrent transaction may have inserted one of them first; then ours is a sighting of a stored product.
        ours = {update.after.key: update for update in new}
        for record in PRODUCTS.from_rows(await tx.fetch(LOCK_PRODUCTS, list(ours))):
            if record != ours[record.key].after:
                stored[record.key] = record
        new = [update for update in new if update.after.key not in stored]
    old = [
        update for key, before in stored.items() if (update := _compare_sighting(before, by_key[key], now)) is not None
    ]
    changed = PRODUCTS.to_rows(update.after for update in old if update.change is not None)
    await tx.update(schema.product, PRODUCTS.columns, changed)
    unchanged = _SEEN.to_rows(update.after for update in old if update.change is None)
    await tx.update(schema.product, _SEEN.columns, unchanged)
    await _insert_changes(tx, [*new, *old])


async def forget_gone_products(tx: Tx, before: Instant, limit: int) -> tuple[int, bool]:
    """Delete products that are gone since before then, with their changes; return how many, and whether there may be
    more."""
    rows = await tx.fetch(GONE_LONG, before, limit)
    keys: list[ProductKey] = []
    changes = 0
    for key, count in rows:
        changes += min(count, CHANGES_KEPT)
        if keys and changes > CHANGES_PER_PRODUCT * limit:
            break
        keys.append(key)
    if keys:
        await tx.execute("DELETE FROM product_change WHERE product AMONG($1)", keys)
        await tx.execute("DELETE FROM product WHERE key AMONG($1)", keys)
    return len(keys), len(keys) < len(rows) or len(rows) >= limit


async def _insert_changes(tx: Tx, updates: Sequence[ProductUpdate]) -> None:
    changes = [(update.after.key, update.change) for update in updates if update.change is not None]
    rows = [(key, *_CHANGES.to_row(change)) for key, change in changes]
    if rows:
        await tx.insert(schema.product_change, ("product", *_CHANGES.columns), rows)
    if many := [key for key, change in changes if change.number > CHANGES_KEPT]:
        await tx.execute(FORGET_CHANGES, many)


def _compare_sighting(before: ProductRecord | None, sighting: ProductSighting, now: Instant) -> ProductUpdate | None:
    return compare_product(before, sighting.project, sighting.product, sighting.execution, now)
