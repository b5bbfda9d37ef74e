"""Making room: who was stopped for whom, and slots that follow the load"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "preemption",
        sa.Column("execution", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("waiter", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("execution", name=op.f("pk_preemption")),
    )
    for column in ("task", "waiter", "at"):
        op.create_index(op.f(f"ix_preemption_{column}"), "preemption", [column], unique=False)
    op.add_column("node", sa.Column("slots_measured", sa.Integer(), nullable=True))
    op.add_column("node", sa.Column("follows_load", sa.SmallInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("node", "follows_load")
    op.drop_column("node", "slots_measured")
    op.drop_table("preemption")
