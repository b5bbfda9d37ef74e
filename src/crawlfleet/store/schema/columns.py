"""The metadata of all tables, and functions that make their columns and partial indexes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData, SmallInteger, Text, text
from sqlalchemy.types import TypeEngine

metadata = MetaData(naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"})

# SQLite makes a key of exactly this type its row id, which appends instead of searching.
RowId = BigInteger().with_variant(Integer(), "sqlite")


def big_column(name: str, **options: object) -> Column[int]:
    return Column(name, BigInteger, **{"nullable": False, **options})  # type: ignore[arg-type]


def small_column(name: str, **options: object) -> Column[int]:
    return Column(name, SmallInteger, **{"nullable": False, **options})  # type: ignore[arg-type]


def text_column(name: str, **options: object) -> Column[str]:
    return Column(name, Text, **{"nullable": False, **options})  # type: ignore[arg-type]


def id_column(name: str = "id", kind: TypeEngine[int] = RowId) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def instant_column(name: str) -> Column[int]:
    """Make a nullable column for an instant."""
    return Column(name, BigInteger, nullable=True)


def partial_where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index, for both databases."""
    return {f"{dialect}_where": text(condition) for dialect in ("sqlite", "postgresql")}
