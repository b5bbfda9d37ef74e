"""Evidence: how executions ended, by node and subject"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "evidence",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("ok", sa.Double(), nullable=False),
        sa.Column("failed", sa.Double(), nullable=False),
        sa.Column("blocked", sa.Double(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("last_blocked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
    )
    op.create_index(op.f("ix_evidence_subject_kind"), "evidence", ["subject", "kind"], unique=False)
    op.create_index(op.f("ix_evidence_at"), "evidence", ["at"], unique=False)


def downgrade() -> None:
    op.drop_table("evidence")
