"""Reports about hosts name their node"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("host_delta", sa.Column("node", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("host_delta", "node")
