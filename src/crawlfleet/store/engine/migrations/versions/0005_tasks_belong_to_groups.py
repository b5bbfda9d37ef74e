"""Tasks belong to groups"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_MEMBERS = sa.text("group_id IS NOT NULL")
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NOT_COMPLETED = sa.text("group_id IS NOT NULL AND status <> 10")


def upgrade() -> None:
    # Without a default, so that no row is written anew and one without a group is not a byte longer.
    for table in ("task", "live", "done"):
        op.add_column(table, sa.Column("group_id", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_task_group", "task", ["group_id", "id"], unique=False, sqlite_where=_MEMBERS, postgresql_where=_MEMBERS
    )
    op.create_index(
        "ix_done_group",
        "done",
        ["group_id", "status", "id"],
        unique=False,
        sqlite_where=_NOT_COMPLETED,
        postgresql_where=_NOT_COMPLETED,
    )
    op.create_table(
        "task_group",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("is_closed", sa.SmallInteger(), nullable=False),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("finishes", sa.Integer(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_group")),
    )
    op.create_index(op.f("ix_task_group_project_id"), "task_group", ["project", "id"], unique=False)
    op.create_table(
        "group_counter",
        sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("group_id", "status", name=op.f("pk_group_counter")),
    )
    op.create_table(
        "group_delta",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_group_delta")),
    )
    op.create_index(op.f("ix_group_delta_group_id"), "group_delta", ["group_id"], unique=False)
    if op.get_bind().dialect.name == "postgresql":
        for table in ("group_counter", "group_delta"):
            op.execute(
                f"ALTER TABLE {table} SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, "
                "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
            )


def downgrade() -> None:
    for table in ("group_delta", "group_counter", "task_group"):
        op.drop_table(table)
    op.drop_index("ix_done_group", table_name="done")
    op.drop_index("ix_task_group", table_name="task")
    for table in ("done", "live", "task"):
        op.drop_column(table, "group_id")
