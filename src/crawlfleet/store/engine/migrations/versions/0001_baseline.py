"""The baseline revision: the tables as they are before the first release.

Nothing is released: until then a change of the tables is made here, in the table it belongs to, and in `store.schema`.
The first change after the release is the next revision, and this file stays as it is.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from crawlfleet.store.engine.migrations.alert_tables import ALERT_TABLES, create_alert_tables
from crawlfleet.store.engine.migrations.figure_tables import FIGURE_TABLES, create_figure_tables
from crawlfleet.store.engine.migrations.pull_tables import PULL_TABLES, create_pull_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TABLES = (
    "task",
    "live",
    "done",
    "execution",
    "preemption",
    "parking",
    "dependency",
    "dead_letter",
    "chunk_removal",
    "idempotency",
    "lane",
    "queue",
    "task_group",
    "group_counter",
    "group_delta",
    "flow_step",
    "crawl",
    "crawl_seen",
    "crawl_chunk",
    "product",
    "product_change",
    "schedule",
    "tick",
    "project",
    "day_use",
    "day_slice",
    "host",
    "host_share",
    "host_news",
    "host_told",
    "host_delta",
    "host_figure",
    "cookie_jar",
    "cluster",
    "node",
    "lease",
    "heartbeat",
    "node_proxies",
    "task_type",
    "leader",
    "master",
    "id_slot",
    "outbox",
    "event_log",
    *FIGURE_TABLES,
    "evidence",
    "installation",
    "cluster_config",
    "token",
    "audit",
    *ALERT_TABLES,
    *PULL_TABLES,
)
_HOT_TABLES = (
    "live",
    "lease",
    "leader",
    "outbox",
    "figure_delta",
    "counter",
    "lane_counter",
    "figure_total",
    "dependency",
    "group_counter",
    "group_delta",
)


def _where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index, for both databases."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def tune_hot_tables() -> None:
    """Leave space for updates in place, and let autovacuum run early: these tables churn and must stay small."""
    for table in _HOT_TABLES:
        op.execute(
            f"ALTER TABLE {table} SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, "
            "autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0)"
        )
    # A row is read once, soon after it was written: compressing it costs more than the disk space.
    for table in ("outbox", "figure_delta"):
        op.execute(f"ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL")


def create_task_tables() -> None:
    """Create the tables of tasks, their executions, and the lanes and queues they wait in."""
    op.create_table(
        "task",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("workflow", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    op.create_index("ix_task_group", "task", ["group_id", "id"], **_where("group_id IS NOT NULL"))
    op.create_index(op.f("ix_task_project_id"), "task", ["project", "id"])
    op.create_index("ix_task_workflow", "task", ["workflow", "id"], **_where("workflow IS NOT NULL"))
    op.create_table(
        "live",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
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
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_live")),
    )
    op.create_index("ix_live_due", "live", ["due_at"], **_where("due_at IS NOT NULL AND waits = 0"))
    op.create_index("ix_live_held", "live", ["node", "id"], **_where("node <> 0"))
    op.create_index("ix_live_ready", "live", ["lane", "id"], **_where("status = 0"))
    op.create_table(
        "done",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
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
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_done")),
    )
    op.create_index(
        "ix_done_group", "done", ["group_id", "status", "id"], **_where("group_id IS NOT NULL AND status <> 10")
    )
    op.create_index("ix_done_status", "done", ["status", "id"], **_where("status <> 10"))
    op.create_table(
        "execution",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
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
    op.create_index(op.f("ix_execution_task"), "execution", ["task"])
    op.create_table(
        "preemption",
        sa.Column("execution", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("waiter", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("execution", name=op.f("pk_preemption")),
    )
    op.create_index(op.f("ix_preemption_at"), "preemption", ["at"])
    op.create_index(op.f("ix_preemption_task"), "preemption", ["task"])
    op.create_index(op.f("ix_preemption_waiter"), "preemption", ["waiter"])
    op.create_table(
        "parking",
        sa.Column("task", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("cause", sa.SmallInteger(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_parking")),
    )
    op.create_index(op.f("ix_parking_cause_subject_until"), "parking", ["cause", "subject", "until"])
    op.create_table(
        "dependency",
        sa.Column("parent", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("child", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("parent", "child", name=op.f("pk_dependency")),
    )
    op.create_index(op.f("ix_dependency_child"), "dependency", ["child"])
    op.create_table(
        "dead_letter",
        sa.Column("task", _ROW_ID, autoincrement=False, nullable=False),
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
    op.create_index(op.f("ix_dead_letter_cause_task"), "dead_letter", ["cause", "task"])
    op.create_table(
        "chunk_removal",
        sa.Column("task", _ROW_ID, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_chunk_removal")),
    )
    op.create_table(
        "idempotency",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_expires_at"), "idempotency", ["expires_at"])
    op.create_table(
        "lane",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("requirement_id", sa.BigInteger(), nullable=False),
        sa.Column("task_type", sa.Text(), nullable=False),
        sa.Column("requirement", sa.LargeBinary(), nullable=False),
        sa.Column("unused_mark", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lane")),
    )
    op.create_table(
        "queue",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_paused", sa.SmallInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("is_lifo", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_queue")),
    )


def create_composite_tables() -> None:
    """Create the tables of groups, flows, crawls over many nodes, products and schedules."""
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
    op.create_index(op.f("ix_task_group_project_id"), "task_group", ["project", "id"])
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
    op.create_index(op.f("ix_group_delta_group_id"), "group_delta", ["group_id"])
    op.create_table(
        "flow_step",
        sa.Column("task", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=True),
        sa.Column("items", sa.Integer(), nullable=True),
        sa.Column("unrun", sa.SmallInteger(), nullable=False),
        sa.Column("spec", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_flow_step")),
    )
    op.create_index(op.f("ix_flow_step_group_id_task"), "flow_step", ["group_id", "task"])
    op.create_table(
        "crawl",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("members", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("max_pages", sa.BigInteger(), nullable=False),
        sa.Column("max_ms", sa.BigInteger(), nullable=True),
        sa.Column("max_bytes", sa.BigInteger(), nullable=True),
        sa.Column("chunks", sa.BigInteger(), nullable=False),
        sa.Column("found", sa.BigInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("skipped", sa.BigInteger(), nullable=False),
        sa.Column("moved", sa.BigInteger(), nullable=False),
        sa.Column("items", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("stopped_by", sa.Text(), nullable=True),
        sa.Column("older_at", sa.BigInteger(), nullable=False),
        sa.Column("older_pages", sa.BigInteger(), nullable=False),
        sa.Column("newer_at", sa.BigInteger(), nullable=False),
        sa.Column("newer_pages", sa.BigInteger(), nullable=False),
        sa.Column("told_at", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pages_new", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pages_changed", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pages_unchanged", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("pages_gone", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_crawl")),
    )
    op.create_table(
        "crawl_seen",
        sa.Column("crawl", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "hash", name=op.f("pk_crawl_seen")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "crawl_chunk",
        sa.Column("crawl", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.SmallInteger(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("urls", sa.LargeBinary(), nullable=True),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("execution", sa.BigInteger(), nullable=False),
        sa.Column("first_item", sa.BigInteger(), nullable=False),
        sa.Column("last_item", sa.BigInteger(), nullable=False),
        sa.Column("first_record", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_record", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("crawl", "number", name=op.f("pk_crawl_chunk")),
    )
    op.create_index("ix_crawl_chunk_open", "crawl_chunk", ["crawl", "state", "depth", "number"], **_where("state < 2"))
    op.create_table(
        "product",
        sa.Column("key", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("shop", sa.Text(), nullable=False),
        sa.Column("product_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("price", sa.Text(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=True),
        sa.Column("availability", sa.Text(), nullable=True),
        sa.Column("attributes", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("first_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("listed_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("gone_at", sa.BigInteger(), nullable=True),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.Column("execution", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_product")),
    )
    op.create_index("ix_product_gone", "product", ["gone_at"], **_where("gone_at IS NOT NULL"))
    op.create_index(op.f("ix_product_product_id"), "product", ["product_id"])
    op.create_index(op.f("ix_product_project_shop_key"), "product", ["project", "shop", "key"])
    op.create_table(
        "product_change",
        sa.Column("product", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("fields", sa.LargeBinary(), nullable=False),
        sa.Column("execution", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("product", "number", name=op.f("pk_product_change")),
    )
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
    op.create_index("ix_schedule_due", "schedule", ["due_at"], **_where("due_at IS NOT NULL"))
    op.create_index("ix_schedule_ended", "schedule", ["fired_until"], **_where("next_at IS NULL"))
    op.create_index("ix_schedule_held", "schedule", ["id"], **_where("held_at IS NOT NULL"))
    op.create_index(op.f("ix_schedule_project_id"), "schedule", ["project", "id"])
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
    op.create_index(op.f("ix_tick_made_at"), "tick", ["made_at"])


def create_project_tables() -> None:
    """Create the tables of projects and their daily quotas."""
    op.create_table(
        "project",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("on_full", sa.SmallInteger(), nullable=False),
        sa.Column("quotas", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("is_metered", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_project")),
    )
    op.create_table(
        "day_use",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "day", name=op.f("pk_day_use")),
    )
    op.create_table(
        "day_slice",
        sa.Column("execution", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("day_pages", sa.BigInteger(), nullable=False),
        sa.Column("day_bytes", sa.BigInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("execution", name=op.f("pk_day_slice")),
    )
    op.create_index(op.f("ix_day_slice_day"), "day_slice", ["day"])


def create_host_tables() -> None:
    """Create the tables of target hosts: budgets, grants, figures and cookies."""
    op.create_table(
        "host",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rate_milli", sa.BigInteger(), nullable=True),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("delay_ms", sa.BigInteger(), nullable=True),
        sa.Column("set_by", sa.Text(), nullable=True),
        sa.Column("set_at", sa.BigInteger(), nullable=True),
        sa.Column("crawl_delay_ms", sa.BigInteger(), nullable=False),
        sa.Column("backoff_level", sa.SmallInteger(), nullable=False),
        sa.Column("backoff_until", sa.BigInteger(), nullable=False),
        sa.Column("quiet_since", sa.BigInteger(), nullable=False),
        sa.Column("backoff_reason", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("blocked", sa.BigInteger(), nullable=False),
        sa.Column("recent_milli", sa.BigInteger(), nullable=False),
        sa.Column("counted_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_host")),
    )
    op.create_table(
        "host_share",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=True),
        sa.Column("rate", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("may_rate", sa.Integer(), nullable=False),
        sa.Column("may_concurrency", sa.Integer(), nullable=False),
        sa.Column("spacing_ms", sa.BigInteger(), nullable=False),
        sa.Column("cut_version", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("blocked", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_share")),
    )
    op.create_index(op.f("ix_host_share_host"), "host_share", ["host"])
    op.create_index(op.f("ix_host_share_node"), "host_share", ["node"])
    op.create_table(
        "host_news",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("span_ms", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_news")),
    )
    op.create_table(
        "host_told",
        sa.Column("node", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_host_told")),
    )
    op.create_table(
        "host_delta",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_delta")),
    )
    op.create_table(
        "host_figure",
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("span_s", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("figures", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("host", "span_s", "at", name=op.f("pk_host_figure")),
    )
    op.create_index(op.f("ix_host_figure_span_s_at"), "host_figure", ["span_s", "at"])
    op.create_table(
        "cookie_jar",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "name", name=op.f("pk_cookie_jar")),
    )
    op.create_index(op.f("ix_cookie_jar_changed_at"), "cookie_jar", ["changed_at"])


def create_node_tables() -> None:
    """Create the tables of clusters, nodes, leases, leadership and starts of masters."""
    op.create_table(
        "cluster",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cluster")),
    )
    op.create_table(
        "node",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
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
        sa.Column("slots_measured", sa.Integer(), nullable=True),
        sa.Column("follows_load", sa.SmallInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_node")),
        sa.UniqueConstraint("device_id"),
        sa.UniqueConstraint("join_key"),
    )
    op.create_index(op.f("ix_node_secret_hash"), "node", ["secret_hash"])
    op.create_table(
        "lease",
        sa.Column("node", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("session", sa.BigInteger(), nullable=False),
        sa.Column("is_open", sa.SmallInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("lease_ms", sa.Integer(), nullable=False),
        sa.Column("renewed_at", sa.BigInteger(), nullable=True),
        sa.Column("measurement", sa.LargeBinary(), nullable=True),
        sa.Column("hosts", sa.LargeBinary(), nullable=True),
        sa.Column("granted", sa.BigInteger(), nullable=True),
        sa.Column("departing", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_lease")),
    )
    op.create_table(
        "heartbeat",
        sa.Column("node", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("measurement", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("node", "at", name=op.f("pk_heartbeat")),
    )
    op.create_index(op.f("ix_heartbeat_at"), "heartbeat", ["at"])
    op.create_table(
        "node_proxies",
        sa.Column("node", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("reported_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_node_proxies")),
    )
    op.create_table(
        "task_type",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("revision", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_task_type")),
    )
    op.create_table(
        "leader",
        sa.Column("term", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("since_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("term", name=op.f("pk_leader")),
    )
    op.create_table(
        "master",
        sa.Column("boot", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("address", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("figures", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("boot", name=op.f("pk_master")),
    )
    op.create_table(
        "id_slot",
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("boot", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("slot", name=op.f("pk_id_slot")),
    )


def create_admin_tables() -> None:
    """Create the tables of events, counters, evidence, configuration, tokens and the audit log."""
    op.create_table(
        "outbox",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "event_log",
        sa.Column("first", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("first", name=op.f("pk_event_log")),
    )
    create_figure_tables()
    op.create_table(
        "evidence",
        sa.Column("id", _ROW_ID, autoincrement=False, nullable=False),
        sa.Column("node", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("ok", sa.Double(), nullable=False),
        sa.Column("failed", sa.Double(), nullable=False),
        sa.Column("blocked", sa.Double(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("last_blocked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
    )
    op.create_index(op.f("ix_evidence_at"), "evidence", ["at"])
    op.create_index(op.f("ix_evidence_subject_kind"), "evidence", ["subject", "kind"])
    op.create_table(
        "installation",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_installation")),
    )
    op.create_table(
        "cluster_config",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "version", name=op.f("pk_cluster_config")),
    )
    op.create_table(
        "token",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("uses_left", sa.Integer(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("rotated_at", sa.BigInteger(), nullable=True),
        sa.Column("rotated_by", sa.Text(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("secret_hash"),
    )
    op.create_table(
        "audit",
        sa.Column("id", _ROW_ID, autoincrement=True, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=True),
        sa.Column("node", sa.BigInteger(), nullable=True),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("details", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )


def upgrade() -> None:
    create_task_tables()
    create_composite_tables()
    create_project_tables()
    create_host_tables()
    create_node_tables()
    create_admin_tables()
    create_alert_tables()
    create_pull_tables()
    op.execute("INSERT INTO cluster (name, status, description, changed_at) VALUES ('default', 0, '', 0)")
    # There is no leader yet. The row exists from the start, so that two first campaigns contend for it.
    op.execute("INSERT INTO leader (term, holder, beats, since_at) VALUES (0, '', 0, 0)")
    if op.get_bind().dialect.name == "postgresql":
        tune_hot_tables()


def downgrade() -> None:
    for table in reversed(_TABLES):
        op.drop_table(table)
