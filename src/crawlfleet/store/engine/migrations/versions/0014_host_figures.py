"""Host figures; what a crawl over many nodes told watchers, and what it found changed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OF_CHUNK = ("first_record", "last_record")
_OF_CRAWL = ("told_at", "pages_new", "pages_changed", "pages_unchanged", "pages_gone")


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def upgrade() -> None:
    for table, names in (("crawl", _OF_CRAWL), ("crawl_chunk", _OF_CHUNK)):
        for name in names:
            op.add_column(table, sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "host_told",
        sa.Column("node", _ROW_ID, autoincrement=False, nullable=False),
        _big("session"),
        _big("number"),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_host_told")),
    )
    op.create_table(
        "host_delta",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        _big("at"),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_delta")),
    )
    op.create_table(
        "host_figure",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("span_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        _big("since_at"),
        _big("changed_at"),
        sa.Column("figures", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("host", "span_s", "at", name=op.f("pk_host_figure")),
    )
    op.create_index(op.f("ix_host_figure_span_s_at"), "host_figure", ["span_s", "at"], unique=False)


def downgrade() -> None:
    for table in ("host_figure", "host_delta", "host_told"):
        op.drop_table(table)
    for table, names in (("crawl", _OF_CRAWL), ("crawl_chunk", _OF_CHUNK)):
        for name in names:
            op.drop_column(table, name)
