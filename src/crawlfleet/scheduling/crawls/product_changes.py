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
    key_of,
)

VALUE_CHARS = 500
"""Limit on the characters of a value in the history of changes."""
_FIELDS = ("title", "price", "currency", "availability")


class Judged(NamedTuple):
    after: ProductRecord
    change: ProductChange | None


def judged(
    was: ProductRecord | None, project: str, product: Product, execution: ExecutionId, now: Instant
) -> Judged | None:
    """The update of a product's record; None where nothing is to be written: an unknown product, or one known to be
    gone, is gone."""
    if product.is_gone:
        return None if was is None or was.gone_at is not None else _gone(was, execution, now)
    if was is None:
        return _new(project, product, execution, now)
    said = content_hash(product)
    seen = replace(was, product=product, hash=said, seen_at=now, gone_at=None, execution=execution)
    if was.gone_at is not None:
        seen = replace(seen, listed_at=now, changed_at=now, changes=was.changes + 1)
        return Judged(seen, _change(seen, ChangeKind.BACK, difference(was.product, product), now))
    if was.hash == said:
        return Judged(seen, None)
    seen = replace(seen, changed_at=now, changes=was.changes + 1)
    return Judged(seen, _change(seen, ChangeKind.CHANGED, difference(was.product, product), now))


def difference(was: Product, now: Product) -> dict[str, Any]:
    """The fields that differ, each with its old and its new value."""
    before = {name: getattr(was, name) for name in _FIELDS} | _steady(was.attributes)
    after = {name: getattr(now, name) for name in _FIELDS} | _steady(now.attributes)
    return {
        name: [_short(before.get(name)), _short(after.get(name))]
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }


def _new(project: str, product: Product, execution: ExecutionId, now: Instant) -> Judged:
    key = key_of(project, product.shop, product.id)
    record = ProductRecord(key, project, product, content_hash(product), now, now, now, now, None, 1, execution)
    return Judged(record, _change(record, ChangeKind.NEW, {}, now))


def _gone(was: ProductRecord, execution: ExecutionId, now: Instant) -> Judged:
    after = replace(was, gone_at=now, changed_at=now, changes=was.changes + 1, execution=execution)
    return Judged(after, _change(after, ChangeKind.GONE, {}, now))


def _change(record: ProductRecord, kind: ChangeKind, fields: Mapping[str, Any], now: Instant) -> ProductChange:
    return ProductChange(record.changes, now, kind, fields, record.execution)


def _steady(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if name not in UNSTEADY}


def _short(value: Any) -> Any:
    return value[:VALUE_CHARS] if isinstance(value, str) else value
