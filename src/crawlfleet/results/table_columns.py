"""The columns of a table of items: every field of every item, found in a pass over all items before the first row.

The type of a column is decided by all its values together, so that a field that appears late, or in another type,
loses no item:

    true, false                       boolean
    whole numbers of 64 bits          integer
    numbers                           number, unless one is a whole number that it could not hold exactly
    lists of one of those, or text    a list of it
    objects, other lists, a mixture   text: strings as they are, everything else as JSON

null, and a field that an item lacks, fit everywhere. Only names and flags are held, whatever the number of items.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec

from crawlfleet.errors import InvalidInput

COLUMNS_MOST = 2_000
NAMES_BYTES = 1 << 20
ONLY_COLUMN = "_url"
"""Column of a table without any field: many readers refuse a table without columns."""

ColumnType = Literal["boolean", "integer", "number", "text"]
Row = dict[str, Any]
_EXACT = 1 << 53
_LONG = 1 << 63
_ROWS = msgspec.json.Decoder(Row)


class Kind:
    """Kinds of values as flags in plain integers: `enum` flags take longer to combine than an item takes to read."""

    NOTHING = 0
    BOOLEAN = 1
    INTEGER = 2
    LONG = 4
    """Flag of a whole number that a float cannot hold exactly."""
    NUMBER = 8
    TEXT = 16
    OTHER = 32
    """Flag of a value that only JSON can hold: an object, or a whole number of more than 64 bits."""
    LIST = 64


_LIST_SHIFT = 8
"""Number of bits by which the kinds of a list's elements are shifted above those of the field itself."""
_KINDS: dict[type, int] = {
    type(None): Kind.NOTHING,
    bool: Kind.BOOLEAN,
    float: Kind.NUMBER,
    str: Kind.TEXT,
    dict: Kind.OTHER,
}


class Column(NamedTuple):
    name: str
    type: ColumnType
    is_list: bool = False
    is_plain: bool = True
    """Whether no value of the column has to be written as JSON text."""


class Columns:
    """Collector of columns, which is fed with batches of items."""

    def __init__(self) -> None:
        self._kinds: dict[str, int] = {}
        self._names_bytes = 0
        self.items = 0

    def add_lines(self, lines: bytes) -> None:
        """Add the fields of items. Raises InvalidInput for more fields than a table may have."""
        kinds = self._kinds
        rows = decode_rows(lines)
        self.items += len(rows)
        for row in rows:
            for name, value in row.items():
                kind = kinds.get(name)
                if kind is None:
                    self._check_new_column(name)
                    kind = 0
                kinds[name] = kind | _value_kind(value)

    def list_columns(self) -> tuple[Column, ...]:
        """Return the columns in the order in which their fields were first seen."""
        columns = tuple(_make_column(name, kinds) for name, kinds in self._kinds.items())
        return columns or (Column(ONLY_COLUMN, "text"),)

    def _check_new_column(self, name: str) -> None:
        self._names_bytes += len(name)
        if len(self._kinds) == COLUMNS_MOST or self._names_bytes > NAMES_BYTES:
            detail = f"the items have more than {COLUMNS_MOST} fields, too many for a table; jsonl takes any"
            raise InvalidInput(detail, field="format")


def decode_rows(lines: bytes) -> list[Row]:
    return _ROWS.decode_lines(lines)


def cell_text(value: object) -> str | None:
    """Convert a value for a text column: a string as it is, null as None, everything else as JSON."""
    if value is None or type(value) is str:
        return value
    return msgspec.json.encode(value).decode()


def _value_kind(value: object) -> int:
    kind = _KINDS.get(type(value))
    if kind is not None:
        return kind
    if isinstance(value, int):
        if -_EXACT <= value <= _EXACT:
            return Kind.INTEGER
        return Kind.LONG if -_LONG <= value < _LONG else Kind.OTHER
    assert isinstance(value, list)
    kinds = 0
    for element in value:
        kinds |= Kind.OTHER if isinstance(element, list) else _value_kind(element)
    return Kind.LIST | kinds << _LIST_SHIFT


def _make_column(name: str, kinds: int) -> Column:
    own, inner = kinds & ((1 << _LIST_SHIFT) - 1), kinds >> _LIST_SHIFT
    if own == Kind.LIST and inner and (element := _common_type(inner)) is not None:
        return Column(name, element, is_list=True)
    if (column_type := _common_type(own)) is not None:
        return Column(name, column_type)
    return Column(name, "text", is_plain=False)


def _common_type(kinds: int) -> ColumnType | None:
    """Return the one type that holds all these kinds; None if there is none."""
    match kinds:
        case Kind.BOOLEAN:
            return "boolean"
        case Kind.INTEGER | Kind.LONG:
            return "integer"
        case Kind.NUMBER:
            return "number"
        case Kind.TEXT | Kind.NOTHING:
            return "text"
    if kinds == Kind.INTEGER | Kind.LONG:
        return "integer"
    return "number" if kinds == Kind.INTEGER | Kind.NUMBER else None
