"""Items as CSV: RFC 4180, UTF-8, with a first row of column names.

A null, a field that an item lacks and an empty text are all an empty cell. Lists and objects are JSON.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from typing import Any

from crawlfleet.results.table_columns import Column, as_text, rows_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet may run as a formula."""


class CsvTable:
    """CSV writer; implements `export_stream.Table`."""

    def __init__(self, columns: Sequence[Column], *, bom: bool = False, guard: bool = False) -> None:
        """Make a table. `bom` writes a byte order mark, without which Excel takes the file for one of another charset.
        `guard` lets no cell be a formula, at the price that texts which begin like one get an apostrophe that was not
        there."""
        self._names = [column.name for column in columns]
        self._has_bom = bom
        self._cell = _guarded if guard else _cell

    def begin(self) -> bytes:
        return (codecs.BOM_UTF8 if self._has_bom else b"") + _written([[self._cell(name) for name in self._names]])

    def add(self, lines: bytes) -> bytes:
        cell, names = self._cell, self._names
        return _written([cell(row.get(name)) for name in names] for row in rows_of(lines))

    def end(self) -> bytes:
        return b""


def _written(rows: Any) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode()


def _cell(value: object) -> object:
    # The csv module writes numbers as JSON does; but it writes true and false as Python does.
    return value if type(value) in (str, int, float) else as_text(value)


def _guarded(value: object) -> object:
    made = _cell(value)
    return f"'{made}" if isinstance(made, str) and made.startswith(_FORMULA) else made
