"""The tables of alerts, as the baseline revision makes them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

ALERT_TABLES = (
    "alert_rule",
    "alert_state",
    "alert_group",
    "acknowledgement",
    "silence",
    "alert_channel",
    "notice",
)
_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def create_alert_tables() -> None:
    op.create_table(
        "alert_rule",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_alert_rule")),
    )
    op.create_table(
        "alert_state",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert_state")),
    )
    op.create_table(
        "alert_group",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("sent_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert_group")),
    )
    op.create_table(
        "acknowledgement",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("acknowledged_at", sa.BigInteger(), nullable=False),
        sa.Column("acknowledged_by", sa.Text(), nullable=False),
        sa.Column("acknowledged_why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_acknowledgement")),
    )
    op.create_table(
        "silence",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("matchers", sa.LargeBinary(), nullable=False),
        sa.Column("starts_at", sa.BigInteger(), nullable=False),
        sa.Column("until_at", sa.BigInteger(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_silence")),
    )
    op.create_table(
        "alert_channel",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("fields", sa.LargeBinary(), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("is_enabled", sa.SmallInteger(), nullable=False),
        sa.Column("disabled_why", sa.Text(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("failing_since", sa.BigInteger(), nullable=True),
        sa.Column("last_answer", sa.Text(), nullable=False),
        sa.Column("last_sent_at", sa.BigInteger(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_alert_channel")),
    )
    op.create_table(
        "notice",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("tried_at", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("merged_into", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
    )
    due: dict[str, Any] = {"sqlite_where": sa.text("status = 0"), "postgresql_where": sa.text("status = 0")}
    op.create_index(op.f("ix_notice_due_at"), "notice", ["due_at"], **due)
    op.create_index(op.f("ix_notice_channel_tried_at"), "notice", ["channel", "tried_at"])
    left_out: dict[str, Any] = {
        "sqlite_where": sa.text("status IN (1, 2)"),
        "postgresql_where": sa.text("status IN (1, 2)"),
    }
    op.create_index("ix_tick_left_out", "tick", ["made_at"], **left_out)
