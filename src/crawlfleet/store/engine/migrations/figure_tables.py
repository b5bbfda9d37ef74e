"""The tables of counters and task figures, as the baseline creates them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

FIGURE_TABLES = ("counter", "lane_counter", "figure_delta", "figure", "figure_total", "tally")


def create_figure_tables() -> None:
    op.create_table(
        "counter",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "status", name=op.f("pk_counter")),
    )
    op.create_table(
        "figure_delta",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_figure_delta")),
    )
    op.create_table(
        "lane_counter",
        sa.Column("lane", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("lane", "status", name=op.f("pk_lane_counter")),
    )
    op.create_table(
        "figure",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("span_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("series", "span_s", "at", name=op.f("pk_figure")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "figure_total",
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("series", name=op.f("pk_figure_total")),
    )
    op.create_table(
        "tally",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_tally")),
    )
