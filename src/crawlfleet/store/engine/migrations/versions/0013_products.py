"""Products of shops"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _big(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "product",
        sa.Column("key", _ROW_ID, autoincrement=False, nullable=False),
        *(_text(name) for name in ("project", "shop", "product_id", "url", "title")),
        *(_text(name, nullable=True) for name in ("price", "currency", "availability")),
        sa.Column("attributes", sa.LargeBinary(), nullable=False),
        _text("hash"),
        *(_big(name) for name in ("first_seen_at", "listed_at", "changed_at", "seen_at")),
        _big("gone_at", nullable=True),
        sa.Column("changes", sa.Integer(), nullable=False),
        _big("execution"),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_product")),
    )
    op.create_index(op.f("ix_product_project_shop_key"), "product", ["project", "shop", "key"], unique=False)
    op.create_index(op.f("ix_product_product_id"), "product", ["product_id"], unique=False)
    op.create_table(
        "product_change",
        sa.Column("product", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        _big("at"),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("fields", sa.LargeBinary(), nullable=False),
        _big("execution"),
        sa.PrimaryKeyConstraint("product", "number", name=op.f("pk_product_change")),
    )


def downgrade() -> None:
    for table in ("product_change", "product"):
        op.drop_table(table)
