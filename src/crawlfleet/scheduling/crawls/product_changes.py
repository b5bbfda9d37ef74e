"""Compares a product as it was just seen with its stored record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.instants import Instant
from crawlfleet.model.product import (
    UNSTEADY,
    ChangeKind,
    Product,
    ProductChange,
    ProductRecord,
    content_hash,
    product_key,
)

VALUE_CHARS = 500
"""Limit on the characters of a value in the history of changes."""
_FIELDS = ("title", "price", "currency", "availability")


class ProductUpdate(NamedTuple):
    """The new record of a product, and the change to be added to its history, if any."""

    after: ProductRecord
    change: ProductChange | None


def compare_product(
    before: ProductRecord | None, project: str, product: Product, execution: ExecutionId, now: Instant
) -> ProductUpdate | None:
    """The update of a product's record; None where nothing is to be written: an unknown product, or one known to be
    gone, is gone."""
    if product.is_gone:
        return None if before is None or before.gone_at is not None else _gone_product(before, execution, now)
    if before is None:
        return _new_product(project, product, execution, now)
    new_hash = content_hash(product)
    seen = replace(before, product=product, hash=new_hash, seen_at=now, gone_at=None, execution=execution)
    if before.gone_at is not None:
        seen = replace(seen, listed_at=now, changed_at=now, changes=before.changes + 1)
        return ProductUpdate(seen, _change(seen, ChangeKind.BACK, changed_fields(before.product, product), now))
    if before.hash == new_hash:
        return ProductUpdate(seen, None)
    seen = replace(seen, changed_at=now, changes=before.changes + 1)
    return ProductUpdate(seen, _change(seen, ChangeKind.CHANGED, changed_fields(before.product, product), now))


def changed_fields(was: Product, now: Product) -> dict[str, Any]:
    """The fields that differ, each with its old and its new value."""
    before = {name: getattr(was, name) for name in _FIELDS} | _stable_attributes(was.attributes)
    after = {name: getattr(now, name) for name in _FIELDS} | _stable_attributes(now.attributes)
    return {
        name: [_shorten(before.get(name)), _shorten(after.get(name))]
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }


def _new_product(project: str, product: Product, execution: ExecutionId, now: Instant) -> ProductUpdate:
    key = product_key(project, product.shop, product.id)
    record = ProductRecord(key, project, product, content_hash(product), now, now, now, now, None, 1, execution)
    return ProductUpdate(record, _change(record, ChangeKind.NEW, {}, now))


def _gone_product(was: ProductRecord, execution: ExecutionId, now: Instant) -> ProductUpdate:
    after = replace(was, gone_at=now, changed_at=now, changes=was.changes + 1, execution=execution)
    return ProductUpdate(after, _change(after, ChangeKind.GONE, {}, now))


def _change(record: ProductRecord, kind: ChangeKind, fields: Mapping[str, Any], now: Instant) -> ProductChange:
    return ProductChange(record.changes, now, kind, fields, record.execution)


def _stable_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in UNSTEADY}


def _shorten(value: Any) -> Any:
    return value[:VALUE_CHARS] if isinstance(value, str) else value
