"""Daily quotas: what is granted of each day, and what executions hold of it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "day_use",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "day", name=op.f("pk_day_use")),
    )
    op.create_table(
        "day_slice",
        sa.Column("execution", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("day_pages", sa.BigInteger(), nullable=False),
        sa.Column("day_bytes", sa.BigInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("execution", name=op.f("pk_day_slice")),
    )
    op.create_index(op.f("ix_day_slice_day"), "day_slice", ["day"], unique=False)
    op.add_column("project", sa.Column("is_metered", sa.SmallInteger(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.drop_column("project", "is_metered")
    op.drop_table("day_slice")
    op.drop_table("day_use")
