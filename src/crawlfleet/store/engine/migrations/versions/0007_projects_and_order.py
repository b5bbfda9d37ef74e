"""Projects with shares and quotas; queues that are served newest first"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("on_full", sa.SmallInteger(), nullable=False),
        sa.Column("quotas", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_project")),
    )
    op.add_column("queue", sa.Column("is_lifo", sa.SmallInteger(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.drop_column("queue", "is_lifo")
    op.drop_table("project")
