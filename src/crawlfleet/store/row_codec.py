"""The row codec: rows by field name, with a codec per table built once from the fields of its record, and JSON
columns.

A field is stored in the column of its name. Its type decides how it is converted: enums and booleans are stored as
integers, bytes are bytes whatever the driver returns. A field that is a record itself stands for its own fields, which
are named with a dot (`timing.every_s`). Columns keep the order of the record's fields, so that a row read with
`codec.select` becomes a record without a look-up; a batch is converted column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from sqlalchemy import Table

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.flow import StepSpec
from crawlfleet.model.node import Measurement, NodeDescription
from crawlfleet.model.requirement import Requirement
from crawlfleet.store.engine.transaction import Row

Convert = Callable[[Any], Any]
RecordT = TypeVar("RecordT")

_AS_IT_IS = (int, float, str)
_encode = msgspec.json.Encoder().encode


class Format(NamedTuple):
    """The conversions of a value to and from its column; None for a value that is stored as it is."""

    write: Convert | None = None
    read: Convert | None = None


class _Field(NamedTuple):
    path: str
    """Name of the field; the name of a nested field has a dot."""
    format: Format


class RecordReader(Generic[RecordT]):
    """A converter from rows, whose values are in the order of `names`, to records."""

    def __init__(
        self, record: type[RecordT], formats: Mapping[str, Format] | None = None, omitted: Collection[str] = ()
    ) -> None:
        """Build the reader. `formats` are for fields whose type does not determine the format; `omitted` fields are
        left to their defaults."""
        self._record: Callable[..., RecordT] = record
        self._fields: list[_Field] = []
        parts: list[tuple[slice, Callable[..., Any]]] = []
        chosen = dict(formats or {})
        for name, hint in _field_types(record, omitted).items():
            first = len(self._fields)
            if name not in chosen and _is_record(hint):
                inner = _field_types(hint, {path.removeprefix(f"{name}.") for path in omitted})
                self._fields += (_describe_field(f"{name}.{each}", of, chosen) for each, of in inner.items())
                parts.append((slice(first, len(self._fields)), hint))
            else:
                self._fields.append(_describe_field(name, hint, chosen))
        if chosen:
            raise TypeError(f"{record.__name__} has no fields {', '.join(chosen)}")
        self.names = tuple(field.path for field in self._fields)
        self._reads = [(index, field.format.read) for index, field in enumerate(self._fields) if field.format.read]
        # From the last to the first, so that the positions of the earlier parts stay valid.
        self._parts = parts[::-1]

    def from_row(self, row: Sequence[Any]) -> RecordT:
        values = list(row)
        for index, read in self._reads:
            values[index] = read(values[index])
        for part, nested in self._parts:
            values[part] = [nested(*values[part])]
        return self._record(*values)

    def from_rows(self, rows: Iterable[Sequence[Any]]) -> list[RecordT]:
        return [self.from_row(row) for row in rows]


class RowWriter(Generic[RecordT]):
    """A converter from records to rows of some columns of a table."""

    def __init__(self, record: type[RecordT], stored: Mapping[str, _Field]) -> None:
        self.columns = tuple(stored)
        paths = tuple(field.path for field in stored.values())
        self._is_row = paths == getattr(record, "_fields", None)
        self._values: Callable[[RecordT], Row] = attrgetter(*paths)
        if len(paths) == 1:
            raise TypeError("attrgetter makes no row of a single field")
        self._writes = [
            (index, field.format.write) for index, field in enumerate(stored.values()) if field.format.write
        ]

    def to_rows(self, records: Iterable[RecordT]) -> list[Row]:
        columns: list[Iterable[Any]] = list(
            zip(*(records if self._is_row else map(self._values, records)), strict=True)
        )
        if columns:
            for index, write in self._writes:
                columns[index] = map(write, columns[index])
        return list(zip(*columns, strict=True))

    def to_row(self, record: RecordT) -> Row:
        return self.to_rows([record])[0]


class RowCodec(RecordReader[RecordT], RowWriter[RecordT]):
    """A converter in both directions between the records of a type and the rows of a table."""

    def __init__(
        self,
        table: Table,
        record: type[RecordT],
        *,
        columns: Mapping[str, str] | None = None,
        formats: Mapping[str, Format] | None = None,
        omitted: Collection[str] = (),
    ) -> None:
        """Build the codec. `columns` names the columns of fields that have another name in the table."""
        RecordReader.__init__(self, record, formats, omitted)
        renamed = dict(columns or {})
        stored = {renamed.pop(field.path, field.path.rpartition(".")[2]): field for field in self._fields}
        if unknown := [*(stored.keys() - table.columns.keys()), *renamed]:
            raise TypeError(f"{record.__name__} in table {table.name}: no columns or fields {', '.join(unknown)}")
        if len(stored) < len(self._fields):
            raise TypeError(f"{record.__name__} in table {table.name}: two fields in one column")
        RowWriter.__init__(self, record, stored)
        self._type, self._stored = record, stored
        self.table = table
        self.select = ", ".join(stored)
        """Column list for a SELECT whose rows become records."""
        self.selected = tuple(table.columns[name] for name in stored)
        """Columns for a SQLAlchemy query whose rows become records."""

    def column_writer(self, *columns: str) -> RowWriter[RecordT]:
        """Make a writer of these columns, in this order."""
        return RowWriter(self._type, {column: self._stored[column] for column in columns})


def row_writer(table: Table, record: type[RecordT], columns: Mapping[str, str]) -> RowWriter[RecordT]:
    """Make a writer for a record that has more fields than the table; `columns` gives the field of each column."""
    if unknown := columns.keys() - table.columns.keys():
        raise TypeError(f"{table.name}: no columns {', '.join(unknown)}")
    hints = _field_types(record, ())
    return RowWriter(record, {column: _describe_field(name, hints[name], {}) for column, name in columns.items()})


def _field_types(record: Any, omitted: Collection[str]) -> dict[str, Any]:
    """Return the types of a record's fields, in their order."""
    hints = get_type_hints(record)
    names = [field.name for field in fields(record)] if is_dataclass(record) else list(record._fields)
    stored = [name for name in names if name not in omitted]
    if stored != names[: len(stored)]:
        raise TypeError(f"{record.__name__}: only its last fields can be omitted")
    return {name: hints[name] for name in stored}


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "_fields"))


def _describe_field(path: str, hint: Any, formats: dict[str, Format]) -> _Field:
    """Describe a field; its format is removed from `formats`, if there is one."""
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    real = [kind for kind in kinds if kind is not type(None)]
    format_ = formats.pop(path, None) or _format_of_type(path, real)
    return _Field(path, format_ if len(real) == len(kinds) else Format(*map(_or_none, format_)))


def _format_of_type(path: str, kinds: Sequence[Any]) -> Format:
    kind = kinds[0]
    if len(kinds) > 1 or not isinstance(kind, type):
        raise TypeError(f"{path}: a format is needed for {kinds}")
    if kind is bool:
        return Format(int, bool)
    if kind is bytes:
        return Format(None, bytes)
    if issubclass(kind, IntEnum):
        return Format(int, {int(member): member for member in kind}.__getitem__)
    if kind in _AS_IT_IS:
        return Format()
    raise TypeError(f"{path}: a format is needed for {kind}")


def _or_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def sql_values(columns: Sequence[str], given: Mapping[str, str], source: str = "") -> str:
    """Return SQL expressions in the order of `columns`: the given ones, and otherwise the column of that name in
    `source`."""
    if unknown := given.keys() - set(columns):
        raise ValueError(f"no such columns: {', '.join(sorted(unknown))}")
    return ", ".join(given.get(column, f"{source}{column}") for column in columns)


def encode_json(value: Any) -> bytes:
    return _encode(value)


def decode_json(body: bytes) -> Any:
    return msgspec.json.decode(body)


def encode_events(batches: Sequence[EventBatch]) -> bytes:
    return _encode([(batch.kind, batch.each, batch.shared) for batch in batches])


def decode_events(body: bytes) -> list[EventBatch]:
    return [EventBatch(Kind(kind), each, shared) for kind, each, shared in msgspec.json.decode(body)]


def plain_values(row: Sequence[object]) -> tuple[Any, ...]:
    """Convert enum members to plain integers, which drivers handle faster."""
    return tuple(int(value) if isinstance(value, int) else value for value in row)


def decode_step_spec(body: bytes) -> StepSpec:
    return msgspec.json.decode(body, type=StepSpec)


def decode_requirement(body: bytes) -> Requirement:
    return msgspec.json.decode(body, type=Requirement)


@lru_cache(maxsize=16_384)
def decode_description(body: bytes) -> NodeDescription:
    """Decode a node description, cached: the leader reads those of all nodes every second, and they hardly ever
    change."""
    return msgspec.json.decode(body, type=NodeDescription)


def decode_measurement(body: bytes | None) -> Measurement | None:
    return None if body is None else msgspec.json.decode(body, type=Measurement)


def decode_details(body: bytes) -> Mapping[str, Any]:
    decoded: Mapping[str, Any] = msgspec.json.decode(body)
    return decoded


JSON = Format(encode_json, decode_json)
"""Format of a JSON column."""
JSON_OBJECT = Format(encode_json, decode_details)
