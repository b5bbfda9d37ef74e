"""Tasks that are parked: what each waits for, and until when"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "parking",
        sa.Column("task", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("cause", sa.SmallInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_parking")),
    )
    op.create_index(op.f("ix_parking_cause_subject_until"), "parking", ["cause", "subject", "until"], unique=False)


def downgrade() -> None:
    op.drop_table("parking")
