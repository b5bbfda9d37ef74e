"""Reads for people: queries written with SQLAlchemy Core, run by our own drivers.

They run on connections of their own, apart from what the leader and the nodes wait for, and have a deadline: whatever
people look for, and however many at once, placement and leases go on. A page is bounded in bytes as well as in rows,
so that its size does not depend on the parameters of tasks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from crawlfleet.model.instants import Instant
from crawlfleet.store.engine.transaction import Engine, Row, Tx

T = TypeVar("T")
Sift = Callable[[Row], Row | None]
"""Function that makes the row of a page from a row of the query; None for a row that is passed over."""

BROWSE_S = 10.0
"""Deadline of a read for people, including its wait for a connection."""
BROWSERS = 2
"""Number of reads for people that one master makes at once; more of them wait."""
PAGE_BYTES = 4 << 20
_ROW_BYTES = 64


class RowPage:
    """The rows of one page: added one by one, until a row does not fit."""

    def __init__(self, limit: int, max_bytes: int = PAGE_BYTES, sift: Sift | None = None) -> None:
        self.rows: list[Row] = []
        self.has_more = False
        self._limit = limit
        self._left = max_bytes
        self._sift = sift

    def add_row(self, row: Row) -> bool:
        """Add a row if it fits; return whether a next one may fit. The first row always fits."""
        page_row = row if self._sift is None else self._sift(row)
        if page_row is None:
            return True
        self._left -= row_bytes(page_row)
        if self.rows and (len(self.rows) == self._limit or self._left < 0):
            self.has_more = True
            return False
        self.rows.append(page_row)
        return True


class QueryEngine(Engine, Protocol):
    async def browse_rows(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run a read for people. Raises ReadTooLong at its deadline."""
        ...

    async def run_query(self, query: Select[Any]) -> Sequence[Row]:
        """Read all rows of a query for people."""
        ...

    async def read_page(
        self, query: Select[Any], limit: int, *, max_bytes: int = PAGE_BYTES, sift: Sift | None = None
    ) -> RowPage:
        """Read the first rows of a query for people, as many as fit; at most one row is held beside these."""
        ...

    async def wall_clock(self) -> Instant | None:
        """Return the clock of the database's machine; None where that is always this machine."""
        ...


def row_bytes(row: Row) -> int:
    return _ROW_BYTES + sum(len(value) for value in row if isinstance(value, bytes | str | memoryview))


def compile_query(query: Select[Any], dialect: Dialect) -> tuple[str, list[Any]]:
    """Compile a query into the text of the dialect and its arguments in order."""
    statement = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(statement, SQLCompiler)
    values = statement.params
    return str(statement), [values[name] for name in statement.positiontup or ()]
