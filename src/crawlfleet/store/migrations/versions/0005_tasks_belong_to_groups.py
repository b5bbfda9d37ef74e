"""Tasks belong to groups"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0002"
branch_labels = None
depends_on = None

_MEMBERS = sa.text("group_id IS NOT NULL")
_NOT_COMPLETED = sa.text("group_id IS NOT NULL AND status <> 10")


def upgrade() -> None:
    # Without a default, so that no row is written anew and one without a group is not a byte longer.
    for table in ("task", "live", "done"):
        op.add_column(table, sa.Column("group_id", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_task_group", "task", ["group_id", "id"], unique=False, sqlite_where=_MEMBERS, postgresql_where=_MEMBERS
    )
    op.create_index(
        "ix_done_group", "done", ["group_id", "id"], unique=False, sqlite_where=_NOT_COMPLETED,
        postgresql_where=_NOT_COMPLETED,
    )  # fmt: skip


def downgrade() -> None:
    op.drop_index("ix_done_group", table_name="done")
    op.drop_index("ix_task_group", table_name="task")
    for table in ("done", "live", "task"):
        op.drop_column(table, "group_id")
