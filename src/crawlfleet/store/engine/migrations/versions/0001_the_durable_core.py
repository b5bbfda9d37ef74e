"""The durable core"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def tune_hot_tables() -> None:
    """Room for updates in place, and a vacuum that comes early: these tables churn and must stay small."""
    for table in ("live", "lease", "leader", "outbox", "counter_delta", "counter", "dependency"):
        op.execute(
            f"ALTER TABLE {table} SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, "
            "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
        )
    # It is read once, a moment later: compressing it costs more than the room.
    op.execute("ALTER TABLE outbox ALTER COLUMN body SET STORAGE EXTERNAL")


def upgrade() -> None:
    op.create_table(
        "cluster",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cluster")),
    )
    op.create_table(
        "counter",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "status", name=op.f("pk_counter")),
    )
    op.create_table(
        "counter_delta",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_counter_delta")),
    )
    op.create_table(
        "dead_letter",
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("error", sa.SmallInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("is_permanent", sa.SmallInteger(), nullable=False),
        sa.Column("buried_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_dead_letter")),
    )
    op.create_index(op.f("ix_dead_letter_cause_task"), "dead_letter", ["cause", "task"], unique=False)
    op.create_table(
        "dependency",
        sa.Column("parent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("child", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("parent", "child", name=op.f("pk_dependency")),
    )
    op.create_index(op.f("ix_dependency_child"), "dependency", ["child"], unique=False)
    op.create_table(
        "done",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("lane", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("retries", sa.SmallInteger(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.SmallInteger(), nullable=False),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("execution", sa.BigInteger(), nullable=False),
        sa.Column("assigned_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("session", sa.BigInteger(), nullable=True),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("metrics", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_done")),
    )
    op.create_index(
        "ix_done_status",
        "done",
        ["status", "id"],
        unique=False,
        sqlite_where=sa.text("status <> 10"),
        postgresql_where=sa.text("status <> 10"),
    )
    op.create_table(
        "event_log",
        sa.Column("first", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("first", name=op.f("pk_event_log")),
    )
    op.create_table(
        "execution",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("retry", sa.SmallInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("assigned_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.SmallInteger(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("is_permanent", sa.SmallInteger(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=True),
        sa.Column("metrics", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_execution")),
    )
    op.create_index(op.f("ix_execution_task"), "execution", ["task"], unique=False)
    op.create_table(
        "heartbeat",
        sa.Column("node", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("measurement", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node", "at", name=op.f("pk_heartbeat")),
    )
    op.create_index(op.f("ix_heartbeat_at"), "heartbeat", ["at"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_expires_at"), "idempotency", ["expires_at"], unique=False)
    op.create_table(
        "lane",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("requirement_id", sa.BigInteger(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("requirement", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lane")),
    )
    op.create_table(
        "leader",
        sa.Column("term", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("term", name=op.f("pk_leader")),
    )
    op.create_table(
        "lease",
        sa.Column("node", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("is_open", sa.SmallInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("lease_ms", sa.Integer(), nullable=False),
        sa.Column("renewed_at", sa.BigInteger(), nullable=True),
        sa.Column("measurement", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_lease")),
    )
    op.create_table(
        "live",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("lane", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("retries", sa.SmallInteger(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("deaths", sa.SmallInteger(), nullable=False),
        sa.Column("waits", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("recall", sa.SmallInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("execution", sa.BigInteger(), nullable=False),
        sa.Column("assigned_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("deadline_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_live")),
    )
    op.create_index(
        "ix_live_due",
        "live",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL AND waits = 0"),
        postgresql_where=sa.text("due_at IS NOT NULL AND waits = 0"),
    )
    op.create_index(
        "ix_live_held",
        "live",
        ["node", "id"],
        unique=False,
        sqlite_where=sa.text("node <> 0"),
        postgresql_where=sa.text("node <> 0"),
    )
    op.create_index(
        "ix_live_ready",
        "live",
        ["lane", "id"],
        unique=False,
        sqlite_where=sa.text("status = 0"),
        postgresql_where=sa.text("status = 0"),
    )
    op.create_table(
        "master",
        sa.Column("boot", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("boot", name=op.f("pk_master")),
    )
    op.create_table(
        "node",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("join_key", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=True),
        sa.Column("secret_hash", sa.Text(), nullable=True),
        sa.Column("description", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("health", sa.SmallInteger(), nullable=False),
        sa.Column("health_details", sa.LargeBinary(), nullable=False),
        sa.Column("health_at", sa.BigInteger(), nullable=True),
        sa.Column("slots_wanted", sa.Integer(), nullable=True),
        sa.Column("drain_by", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node")),
        sa.UniqueConstraint("device_id"),
        sa.UniqueConstraint("join_key"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "queue",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_paused", sa.SmallInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queue")),
    )
    op.create_table(
        "task",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    op.create_index(op.f("ix_task_project_id"), "task", ["project", "id"], unique=False)
    op.create_index(
        "ix_task_workflow",
        "task",
        ["workflow", "id"],
        unique=False,
        sqlite_where=sa.text("workflow IS NOT NULL"),
        postgresql_where=sa.text("workflow IS NOT NULL"),
    )
    op.execute("INSERT INTO cluster (name, status, description, changed_at) VALUES ('default', 0, '', 0)")
    # Nobody leads yet. The row is there from the start, so that two first campaigns meet at it.
    op.execute("INSERT INTO leader (term, holder, beats, since_at) VALUES (0, '', 0, 0)")
    if op.get_bind().dialect.name == "postgresql":
        tune_hot_tables()


def downgrade() -> None:
    op.drop_index(
        "ix_task_workflow",
        table_name="task",
        sqlite_where=sa.text("workflow IS NOT NULL"),
        postgresql_where=sa.text("workflow IS NOT NULL"),
    )
    op.drop_index(op.f("ix_task_project_id"), table_name="task")
    op.drop_table("task")
    op.drop_table("queue")
    op.drop_table("outbox")
    op.drop_table("node")
    op.drop_table("master")
    op.drop_index(
        "ix_live_ready", table_name="live", sqlite_where=sa.text("status = 0"), postgresql_where=sa.text("status = 0")
    )
    op.drop_index(
        "ix_live_held", table_name="live", sqlite_where=sa.text("node <> 0"), postgresql_where=sa.text("node <> 0")
    )
    op.drop_index(
        "ix_live_due",
        table_name="live",
        sqlite_where=sa.text("due_at IS NOT NULL AND waits = 0"),
        postgresql_where=sa.text("due_at IS NOT NULL AND waits = 0"),
    )
    op.drop_table("live")
    op.drop_table("lease")
    op.drop_table("leader")
    op.drop_table("lane")
    op.drop_index(op.f("ix_idempotency_expires_at"), table_name="idempotency")
    op.drop_table("idempotency")
    op.drop_index(op.f("ix_heartbeat_at"), table_name="heartbeat")
    op.drop_table("heartbeat")
    op.drop_index(op.f("ix_execution_task"), table_name="execution")
    op.drop_table("execution")
    op.drop_table("event_log")
    op.drop_index(
        "ix_done_status",
        table_name="done",
        sqlite_where=sa.text("status <> 10"),
        postgresql_where=sa.text("status <> 10"),
    )
    op.drop_table("done")
    op.drop_index(op.f("ix_dependency_child"), table_name="dependency")
    op.drop_table("dependency")
    op.drop_index(op.f("ix_dead_letter_cause_task"), table_name="dead_letter")
    op.drop_table("dead_letter")
    op.drop_table("counter_delta")
    op.drop_table("counter")
    op.drop_table("cluster")
