"""Tasks whose chunks are still to be removed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "chunk_removal",
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_chunk_removal")),
    )


def downgrade() -> None:
    op.drop_table("chunk_removal")
