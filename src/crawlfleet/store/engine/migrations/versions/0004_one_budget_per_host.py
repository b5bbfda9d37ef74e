"""One budget per host: what is known of target hosts, and who holds which part of their budgets"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "host",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rate_milli", sa.BigInteger(), nullable=True),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("delay_ms", sa.BigInteger(), nullable=True),
        sa.Column("set_by", sa.Text(), nullable=True),
        sa.Column("set_at", sa.BigInteger(), nullable=True),
        sa.Column("crawl_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("backoff_level", sa.SmallInteger(), nullable=False),
        sa.Column("backoff_until", sa.BigInteger(), nullable=False),
        sa.Column("quiet_since", sa.BigInteger(), nullable=False),
        sa.Column("backoff_reason", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("blocked", sa.BigInteger(), nullable=False),
        sa.Column("recent_milli", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_host")),
    )
    op.create_table(
        "host_share",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=True),
        sa.Column("rate", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("may_rate", sa.Integer(), nullable=False),
        sa.Column("may_concurrency", sa.Integer(), nullable=False),
        sa.Column("spacing_ms", sa.BigInteger(), nullable=False),
        sa.Column("cut_version", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("blocked", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_share")),
    )
    op.create_index(op.f("ix_host_share_node"), "host_share", ["node"], unique=False)
    op.create_index(op.f("ix_host_share_host"), "host_share", ["host"], unique=False)
    op.create_table(
        "host_news",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("span_ms", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_news")),
    )
    op.add_column("lease", sa.Column("hosts", sa.LargeBinary(), nullable=True))
    op.add_column("lease", sa.Column("granted", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("lease", "granted")
    op.drop_column("lease", "hosts")
    for table in ("host_news", "host_share", "host"):
        op.drop_table(table)
