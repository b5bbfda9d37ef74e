"""Items as Parquet: one schema for the file, row groups of bounded size, each passed on as soon as it is written.

What stays in memory is only the description of each row group, for the end of the file: about 150 bytes a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from crawlfleet.results.table_columns import Column, ColumnType, Row, cell_text, decode_rows

GROUP_BYTES = 16 << 20
GROUP_ROWS = 250_000
CELLS = 500_000
"""Limit of the cells held at a time as Python objects: a thousand columns that most items lack are many cells."""

_TYPES: dict[ColumnType, Callable[[], pa.DataType]] = {
    "boolean": pa.bool_,
    "integer": pa.int64,
    "number": pa.float64,
    "text": pa.string,
}


class _Sink:
    """A writable file whose content is taken away while it is written."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._position += len(part)
        return len(part)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def pop_bytes(self) -> bytes:
        content = b"".join(self._parts)
        self._parts.clear()
        return content


class ParquetTable:
    """Parquet writer; implements `export_stream.Table`."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._schema = pa.schema([(column.name, _arrow_type(column)) for column in columns])
        self._sink = _Sink()
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = self._held_rows = 0

    def begin_file(self) -> bytes:
        return self._sink.pop_bytes()

    def add_lines(self, lines: bytes) -> bytes:
        rows = decode_rows(lines)
        for some in _slice_rows(rows, max(1, CELLS // len(self._columns))):
            batch = pa.record_batch([_make_array(column, some) for column in self._columns], schema=self._schema)
            self._held.append(batch)
            self._held_bytes += batch.nbytes
            self._held_rows += batch.num_rows
            if self._held_bytes >= GROUP_BYTES or self._held_rows >= GROUP_ROWS:
                self._write_group()
        return self._sink.pop_bytes()

    def end_file(self) -> bytes:
        if self._held:
            self._write_group()
        self._writer.close()
        return self._sink.pop_bytes()

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._held.clear()
        self._held_bytes = self._held_rows = 0


def _slice_rows(rows: list[Row], size: int) -> Iterator[list[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _arrow_type(column: Column) -> pa.DataType:
    own = _TYPES[column.type]()
    return pa.list_(own) if column.is_list else own


def _make_array(column: Column, rows: list[Row]) -> pa.Array:
    name = column.name
    values = [row.get(name) for row in rows] if column.is_plain else [cell_text(row.get(name)) for row in rows]
    return pa.array(values, _arrow_type(column))
