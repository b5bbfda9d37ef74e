"""Reports about hosts name their node, and clusters have a time of creation"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("host_delta", sa.Column("node", sa.BigInteger(), nullable=True))
    op.add_column("cluster", sa.Column("created_at", sa.BigInteger(), nullable=True))
    op.execute("UPDATE cluster SET created_at = changed_at WHERE changed_at > 0")


def downgrade() -> None:
    op.drop_column("cluster", "created_at")
    op.drop_column("host_delta", "node")
