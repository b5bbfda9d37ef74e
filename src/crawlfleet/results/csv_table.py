"""Items as CSV: RFC 4180, UTF-8, with a first row of column names.

A null, a field that an item lacks and an empty text are all an empty cell. Lists and objects are JSON.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from typing import Any

from crawlfleet.results.table_columns import Column, cell_text, decode_rows

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
        self._cell = _guard_cell if guard else _format_cell

    def begin_file(self) -> bytes:
        return (codecs.BOM_UTF8 if self._has_bom else b"") + _write_rows([[self._cell(name) for name in self._names]])

    def add_lines(self, lines: bytes) -> bytes:
        cell, names = self._cell, self._names
        return _write_rows([cell(row.get(name)) for name in names] for row in decode_rows(lines))

    def end_file(self) -> bytes:
        return b""


def _write_rows(rows: Any) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode()


def _format_cell(value: object) -> object:
    # The csv module writes numbers as JSON does; but it writes true and false as Python does.
    return value if type(value) in (str, int, float) else cell_text(value)


def _guard_cell(value: object) -> object:
    made = _format_cell(value)
    return f"'{made}" if isinstance(made, str) and made.startswith(_FORMULA) else made
