"""Flows"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dependency", sa.Column("kind", sa.SmallInteger(), nullable=False, server_default=sa.text("0")))
    op.create_table(
        "flow_step",
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=True),
        sa.Column("items", sa.Integer(), nullable=True),
        sa.Column("unrun", sa.SmallInteger(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_flow_step")),
    )
    op.create_index(op.f("ix_flow_step_group_id_task"), "flow_step", ["group_id", "task"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_flow_step_group_id_task"), table_name="flow_step")
    op.drop_table("flow_step")
    op.drop_column("dependency", "kind")
