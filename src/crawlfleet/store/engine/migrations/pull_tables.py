"""The table of pulls, as the baseline revision makes it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

PULL_TABLES = ("pull",)
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPEN = sa.text("want > 0")


def create_pull_tables() -> None:
    op.create_table(
        "pull",
        sa.Column("node", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("want", sa.Integer(), nullable=False),
        sa.Column("span_ms", sa.Integer(), nullable=False),
        sa.Column("filter", sa.LargeBinary(), nullable=False),
        sa.Column("held", sa.LargeBinary(), nullable=False),
        sa.Column("delivered", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_pull")),
    )
    op.create_index("ix_pull_open", "pull", ["node"], sqlite_where=_OPEN, postgresql_where=_OPEN)
