"""Read queries written with SQLAlchemy Core, run by our own drivers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Select
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from crawlfleet.model.instants import Instant
from crawlfleet.store.tx import Engine, Row


class QueryEngine(Engine, Protocol):
    async def query(self, query: Select[Any]) -> Sequence[Row]: ...

    async def wall_clock(self) -> Instant | None:
        """The clock of the database's machine; None where that is always this one."""
        ...


def compiled(query: Select[Any], dialect: Dialect) -> tuple[str, list[Any]]:
    """The text in the dialect's words and its arguments in order."""
    statement = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(statement, SQLCompiler)
    values = statement.params
    return str(statement), [values[name] for name in statement.positiontup or ()]
