"""Cookie jars that outlive executions"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "cookie_jar",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_cookie_jar")),
    )
    op.create_index(op.f("ix_cookie_jar_changed_at"), "cookie_jar", ["changed_at"], unique=False)


def downgrade() -> None:
    op.drop_table("cookie_jar")
