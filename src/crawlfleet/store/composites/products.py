"""Products: one row each, found by a key that is made of project, shop and id.

Whoever writes holds a live execution of a task until the commit: an outcome in the transaction that accepts it, a
batch by its task's row. So a product is never written by somebody who was replaced meanwhile. Rows are locked in order
of their keys.
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
    key_of,
)
from crawlfleet.ports.product_store import ProductBatch, ProductFilter
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.scheduling.crawls.product_changes import ProductUpdate, compare_product
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx

_COLUMNS = tuple(column.name for column in schema.product.columns)
_CHANGE_COLUMNS = tuple(column.name for column in schema.product_change.columns)
_SEEN = ("key", "url", "attributes", "seen_at", "execution")
HOLD_WRITER = (
    "SELECT t.project FROM live l JOIN task t ON t.id = l.id "
    "WHERE l.id = $1 AND l.execution = $2 AND l.node = $3 SHARE_ROWS(l)"
)
LOCK_PRODUCTS = f"SELECT {', '.join(_COLUMNS)} FROM product WHERE key AMONG($1) ORDER BY key LOCK_ROWS(product)"
CHANGES = f"SELECT {', '.join(_CHANGE_COLUMNS)} FROM product_change WHERE product = $1 ORDER BY number DESC"
FORGET_CHANGES = (
    "DELETE FROM product_change WHERE product AMONG($1) AND number <= "
    f"(SELECT p.changes - {CHANGES_KEPT} FROM product p WHERE p.key = product_change.product)"
)
# Locked in the order in which those who see products lock them. One that came back meanwhile is passed over.
GONE_LONG = (
    "SELECT key, changes FROM product "
    "WHERE key IN (SELECT key FROM product WHERE gone_at < $1 ORDER BY gone_at LIMIT $2) "
    "AND gone_at < $1 ORDER BY key LOCK_ROWS(product)"
)
CHANGES_PER_PRODUCT = 10
"""On average, of those that one transaction deletes."""


class Seen(NamedTuple):
    project: str
    execution: ExecutionId
    product: Product


class ProductTables:
    _engine: QueryEngine

    async def put_products(self, batch: ProductBatch, now: Instant) -> bool:
        async def work(tx: Tx) -> bool:
            found = await tx.fetch(HOLD_WRITER, batch.task, batch.execution, batch.node)
            if not found:
                return False
            ((project,),) = found
            await put_products(tx, [Seen(project, batch.execution, product) for product in batch.products], now)
            return True

        return await self._engine.write(work)

    async def products(
        self, where: ProductFilter, limit: int, after: ProductKey | None = None
    ) -> RecordPage[ProductRecord]:
        product = schema.product.c
        query = select(schema.product).order_by(product.key).limit(limit + 1)
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
        page = await self._engine.page(query, limit)
        return RecordPage(map(_record, page.rows), has_more=page.has_more)

    async def product(self, key: ProductKey) -> ProductRecord | None:
        found = await self._listed(select(schema.product).where(schema.product.c.key == key))
        return found[0] if found else None

    async def product_changes(self, key: ProductKey) -> list[ProductChange]:
        rows = await self._engine.browse(lambda tx: tx.fetch(CHANGES, key))
        return [
            ProductChange(number, at, ChangeKind(kind), row_codec.decode(bytes(fields)), execution)
            for _, number, at, kind, fields, execution in rows
        ]

    async def unseen_products(
        self, project: str, shop: str, since: Instant, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        product = schema.product.c
        unseen = and_(product.seen_at < since, product.gone_at.is_(None))
        return await self._listed(_in_shop(project, shop, after).where(unseen).limit(limit))

    async def sync_counts(self, project: str, shop: str, since: Instant) -> SyncCounts:
        product = schema.product.c
        kinds = _kinds(since)
        counted = [func.coalesce(func.sum(case((kinds[name], 1), else_=0)), 0) for name in SyncCounts._fields]
        query = select(*counted).where(product.project == project, product.shop == shop)
        ((*counts,),) = await self._engine.query(query)
        return SyncCounts(*map(int, counts))

    async def synced_products(
        self, project: str, shop: str, since: Instant, kind: ChangeKind, after: ProductKey, limit: int
    ) -> list[ProductRecord]:
        query = _in_shop(project, shop, after).where(_kinds(since)[kind.word]).limit(limit)
        return await self._listed(query)

    async def _listed(self, query: Select[Any]) -> list[ProductRecord]:
        return [_record(row) for row in await self._engine.query(query)]


def _in_shop(project: str, shop: str, after: ProductKey) -> Select[Any]:
    product = schema.product.c
    of_shop = and_(product.project == project, product.shop == shop, product.key > after)
    return select(schema.product).where(of_shop).order_by(product.key)


def _kinds(since: Instant) -> dict[str, ColumnElement[bool]]:
    """As sets: what came and went within the span is neither new nor gone."""
    product = schema.product.c
    is_there, was_there = product.gone_at.is_(None), product.listed_at < since
    return {
        "new": and_(is_there, product.listed_at >= since),
        "changed": and_(is_there, was_there, product.changed_at >= since),
        "gone": and_(product.gone_at >= since, was_there),
        "unchanged": and_(is_there, was_there, product.changed_at < since, product.seen_at >= since),
        "unsure": and_(is_there, was_there, product.changed_at < since, product.seen_at < since),
    }


async def put_products(tx: Tx, seen: Sequence[Seen], now: Instant) -> None:
    """In the caller's transaction, which holds the executions that saw them. Of one product the last look counts."""
    by_key = {key_of(one.project, one.product.shop, one.product.id): one for one in seen}
    keys = sorted(by_key)
    known = {row[0]: _record(row) for row in await tx.fetch(LOCK_PRODUCTS, keys)} if keys else {}
    new = [one for key in keys if key not in known and (one := _judged(None, by_key[key], now)) is not None]
    if new:
        await tx.insert_new(schema.product, _COLUMNS, [_row(one.after) for one in new])
        # Somebody may have been quicker with one of them; then ours is a look at a known one.
        ours = {one.after.key: one for one in new}
        for row in await tx.fetch(LOCK_PRODUCTS, list(ours)):
            if (found := _record(row)) != ours[found.key].after:
                known[found.key] = found
        new = [one for one in new if one.after.key not in known]
    old = [one for key, was in known.items() if (one := _judged(was, by_key[key], now)) is not None]
    await tx.update(schema.product, _COLUMNS, [_row(one.after) for one in old if one.change is not None])
    await tx.update(
        schema.product,
        _SEEN,
        [
            (
                one.after.key,
                one.after.product.url,
                row_codec.encode(one.after.product.attributes),
                now,
                one.after.execution,
            )
            for one in old
            if one.change is None
        ],
    )
    await _note_changes(tx, [*new, *old])


async def forget_gone(tx: Tx, before: Instant, limit: int) -> tuple[int, bool]:
    """Products that are gone since before then, with their changes; how many went, and whether there may be more."""
    found = await tx.fetch(GONE_LONG, before, limit)
    keys: list[ProductKey] = []
    changes = 0
    for key, count in found:
        changes += min(count, CHANGES_KEPT)
        if keys and changes > CHANGES_PER_PRODUCT * limit:
            break
        keys.append(key)
    if keys:
        await tx.execute("DELETE FROM product_change WHERE product AMONG($1)", keys)
        await tx.execute("DELETE FROM product WHERE key AMONG($1)", keys)
    return len(keys), len(keys) < len(found) or len(found) >= limit


async def _note_changes(tx: Tx, all_judged: Sequence[ProductUpdate]) -> None:
    rows = [
        (one.after.key, change.number, change.at, int(change.kind), row_codec.encode(change.fields), change.execution)
        for one in all_judged
        if (change := one.change) is not None
    ]
    if rows:
        await tx.insert(schema.product_change, _CHANGE_COLUMNS, rows)
    if many := [row[0] for row in rows if row[1] > CHANGES_KEPT]:
        await tx.execute(FORGET_CHANGES, many)


def _judged(was: ProductRecord | None, one: Seen, now: Instant) -> ProductUpdate | None:
    return compare_product(was, one.project, one.product, one.execution, now)


def _record(row: Row) -> ProductRecord:
    key, project, shop, product_id, url, title, price, currency, availability, attributes, said, *rest = row
    product = Product(shop, product_id, url, title, price, currency, availability, row_codec.decode(bytes(attributes)))
    return ProductRecord(key, project, product, said, *rest)


def _row(record: ProductRecord) -> Row:
    said = record.product
    return (
        record.key,
        record.project,
        said.shop,
        said.id,
        said.url,
        said.title,
        said.price,
        said.currency,
        said.availability,
        row_codec.encode(said.attributes),
        record.hash,
        record.first_seen_at,
        record.listed_at,
        record.changed_at,
        record.seen_at,
        record.gone_at,
        record.changes,
        record.execution,
    )
