"""Schedules and their ticks"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("task", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=True),
        sa.Column("every_s", sa.Integer(), nullable=True),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("time_zone", sa.Text(), nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=True),
        sa.Column("ends_at", sa.BigInteger(), nullable=True),
        sa.Column("jitter_s", sa.Integer(), nullable=False),
        sa.Column("anchor_at", sa.BigInteger(), nullable=False),
        sa.Column("catch_up", sa.SmallInteger(), nullable=False),
        sa.Column("overlap", sa.SmallInteger(), nullable=False),
        sa.Column("is_paused", sa.SmallInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("fired_until", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.BigInteger(), nullable=True),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("held_at", sa.BigInteger(), nullable=True),
        sa.Column("held_for", sa.BigInteger(), nullable=True),
        sa.Column("recent", sa.LargeBinary(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedule")),
    )
    for name, column, where in (
        ("ix_schedule_due", "due_at", "due_at IS NOT NULL"),
        ("ix_schedule_held", "id", "held_at IS NOT NULL"),
        ("ix_schedule_ended", "fired_until", "next_at IS NULL"),
    ):
        op.create_index(
            op.f(name), "schedule", [column], unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
        )
    op.create_index(op.f("ix_schedule_project_id"), "schedule", ["project", "id"], unique=False)
    op.create_table(
        "tick",
        sa.Column("schedule", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("schedule", "at", name=op.f("pk_tick")),
    )
    op.create_index(op.f("ix_tick_made_at"), "tick", ["made_at"], unique=False)


def downgrade() -> None:
    op.drop_table("tick")
    op.drop_table("schedule")
