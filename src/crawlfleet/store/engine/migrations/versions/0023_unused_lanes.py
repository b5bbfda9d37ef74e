"""Lanes that no task stands in are marked before they are removed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # 0 is a lane in use: what was there before has to be found unused twice, as any other.
    op.add_column("lane", sa.Column("unused_mark", sa.BigInteger(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    op.drop_column("lane", "unused_mark")
