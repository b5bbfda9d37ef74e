"""Columns and partial indexes as both databases get them, and the list of tables that the schema exports."""

import pytest
from sqlalchemy import BigInteger, Column, Dialect, Index, MetaData, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateColumn, CreateIndex

from crawlfleet.store import schema
from crawlfleet.store.schema.columns import (
    big_column,
    id_column,
    instant_column,
    partial_where,
    small_column,
    text_column,
)

SQLITE, POSTGRES = sqlite.dialect(), postgresql.dialect()  # type: ignore[no-untyped-call]


def described(column: Column[int] | Column[str]) -> tuple[str, str]:
    """The column on SQLite and on PostgreSQL."""
    Table("example", MetaData(), column)
    return str(CreateColumn(column).compile(dialect=SQLITE)), str(CreateColumn(column).compile(dialect=POSTGRES))


@pytest.mark.parametrize(
    ("column", "on_sqlite", "on_postgres"),
    [
        (big_column("n"), "n BIGINT NOT NULL", "n BIGINT NOT NULL"),
        (big_column("n", nullable=True), "n BIGINT", "n BIGINT"),
        (small_column("n"), "n SMALLINT NOT NULL", "n SMALLINT NOT NULL"),
        (text_column("name"), "name TEXT NOT NULL", "name TEXT NOT NULL"),
        (text_column("name", nullable=True), "name TEXT", "name TEXT"),
        (instant_column("ended_at"), "ended_at BIGINT", "ended_at BIGINT"),
        (id_column(), "id INTEGER NOT NULL", "id BIGINT NOT NULL"),
        (id_column("parent", BigInteger()), "parent BIGINT NOT NULL", "parent BIGINT NOT NULL"),
    ],
)
def test_a_column_is_not_null_unless_it_is_made_so(
    column: Column[int] | Column[str], on_sqlite: str, on_postgres: str
) -> None:
    assert described(column) == (on_sqlite, on_postgres)


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES])
def test_an_index_is_partial_on_both_databases(dialect: Dialect) -> None:
    index = Index("ix_example", "n", **partial_where("n > 0"))
    Table("example", MetaData(), big_column("n"), index)
    assert str(CreateIndex(index).compile(dialect=dialect)) == "CREATE INDEX ix_example ON example (n) WHERE n > 0"


def test_the_schema_exports_every_table_under_its_name() -> None:
    exported = {name: getattr(schema, name) for name in schema.__all__ if name != "metadata"}
    assert exported == dict(schema.metadata.tables)
