"""One crawl over many nodes"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_OPEN = sa.text("state < 2")


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "crawl",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        _big("max_pages"),
        _big("max_ms", nullable=True),
        _big("max_bytes", nullable=True),
        *(_big(name) for name in ("chunks", "found", "pages", "failed", "skipped", "moved", "items", "bytes")),
        _big("started_at", nullable=True),
        _big("finished_at", nullable=True),
        sa.Column("stopped_by", sa.Text(), nullable=True),
        *(_big(name) for name in ("older_at", "older_pages", "newer_at", "newer_pages")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawl")),
    )
    op.create_table(
        "crawl_seen",
        sa.Column("crawl", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "hash", name=op.f("pk_crawl_seen")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "crawl_chunk",
        sa.Column("crawl", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("urls", sa.LargeBinary(), nullable=True),
        *(_big(name) for name in ("task", "execution", "first_item", "last_item")),
        sa.PrimaryKeyConstraint("crawl", "number", name=op.f("pk_crawl_chunk")),
    )
    op.create_index(
        "ix_crawl_chunk_open",
        "crawl_chunk",
        ["crawl", "state", "depth", "number"],
        unique=False,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )


def downgrade() -> None:
    for table in ("crawl_chunk", "crawl_seen", "crawl"):
        op.drop_table(table)
