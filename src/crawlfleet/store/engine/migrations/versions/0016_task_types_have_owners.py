"""Task types have owners"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task_type", sa.Column("owner", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.add_column("task_type", sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.drop_column("task_type", "revision")
    op.drop_column("task_type", "owner")
