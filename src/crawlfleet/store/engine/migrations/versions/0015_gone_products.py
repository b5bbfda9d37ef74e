"""Products that are gone are found by since when"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_GONE = sa.text("gone_at IS NOT NULL")


def upgrade() -> None:
    op.create_index("ix_product_gone", "product", ["gone_at"], unique=False, sqlite_where=_GONE, postgresql_where=_GONE)


def downgrade() -> None:
    op.drop_index("ix_product_gone", table_name="product", sqlite_where=_GONE, postgresql_where=_GONE)
