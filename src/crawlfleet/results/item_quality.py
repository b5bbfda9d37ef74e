"""Quality figures of items: filled fields and their types, items per page, and duplicates.

They are computed in one pass, in bounded memory. Counts of fields are exact. Pages and duplicates are exact up to
KNOWN_MOST different ones; beyond that they are estimated from every second one by its hash, then every fourth, and the
report marks them as estimated.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from crawlfleet.results.table_columns import decode_rows

KNOWN_MOST = 100_000
FIELDS_MOST = 1_000
NAME_CHARS = 1_000
PAGE_FIELD = "_url"
"""Field with the page on which an item was found: the same item on two pages is a duplicate."""
TYPES = ("null", "boolean", "integer", "number", "text", "list", "object")
_TYPE = {type(None): 0, bool: 1, int: 2, float: 3, str: 4, list: 5, dict: 6}


class FieldReport(NamedTuple):
    name: str
    filled: int
    """Number of items in which the field is present and neither null nor an empty text, list or object."""
    types: dict[str, int]


class Report(NamedTuple):
    items: int
    pages: int
    """Number of different pages that gave an item."""
    duplicates: int
    """Number of items that occurred before, whatever page they are from."""
    is_exact: bool
    """Whether pages and duplicates were counted, not estimated."""
    fields: list[FieldReport]
    fields_left_out: int
    """Number of values in fields that were not counted: beyond the first thousand, or with a name that is too long."""


class Sample:
    """Counter of how often each of many keys was seen: of all keys, or of a sample chosen by their hashes."""

    def __init__(self, max_keys: int = KNOWN_MOST) -> None:
        self._max_keys = max_keys
        self._seen: dict[int, int] = {}
        self._level = 0

    def add_key(self, key: bytes) -> None:
        digest = int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
        if digest & ((1 << self._level) - 1):
            return
        self._seen[digest] = self._seen.get(digest, 0) + 1
        while len(self._seen) > self._max_keys:
            self._level += 1
            mask = (1 << self._level) - 1
            self._seen = {digest: times for digest, times in self._seen.items() if not digest & mask}

    @property
    def is_exact(self) -> bool:
        return self._level == 0

    @property
    def distinct_count(self) -> int:
        return len(self._seen) << self._level

    @property
    def repeat_count(self) -> int:
        return (sum(self._seen.values()) - len(self._seen)) << self._level


class Quality:
    """Collector of quality figures, which is fed with batches of items."""

    def __init__(self) -> None:
        self._items = 0
        self._pages, self._contents = Sample(), Sample()
        self._fields: dict[str, list[int]] = {}
        """Counts of each field: the filled values, then the values of each type."""
        self._left_out = 0

    def add_lines(self, lines: bytes) -> None:
        rows = decode_rows(lines)
        self._items += len(rows)
        for row in rows:
            for name, value in row.items():
                self._count_value(name, value)
            page = row.pop(PAGE_FIELD, None)
            if isinstance(page, str):
                self._pages.add_key(page.encode())
            self._contents.add_key(msgspec.json.encode(row, order="sorted"))

    def make_report(self) -> Report:
        fields = [
            FieldReport(name, filled, {kind: count for kind, count in zip(TYPES, counts, strict=True) if count})
            for name, (filled, *counts) in self._fields.items()
        ]
        is_exact = self._pages.is_exact and self._contents.is_exact
        return Report(
            self._items, self._pages.distinct_count, self._contents.repeat_count, is_exact, fields, self._left_out
        )

    def _count_value(self, name: str, value: Any) -> None:
        counts = self._fields.get(name)
        if counts is None:
            if len(self._fields) == FIELDS_MOST or len(name) > NAME_CHARS:
                self._left_out += 1
                return
            counts = self._fields[name] = [0] * (1 + len(TYPES))
        kind = _TYPE[type(value)]
        counts[1 + kind] += 1
        # Zero and false are values; an empty text, list or object is not.
        counts[0] += bool(value) or kind in (1, 2, 3)
