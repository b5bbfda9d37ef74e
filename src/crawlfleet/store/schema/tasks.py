"""Tables of tasks: as submitted, open, final, their executions, dependencies and dead letters; lanes and queues."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, text

from crawlfleet.model.status import TaskStatus
from crawlfleet.store.schema.columns import (
    big_column,
    id_column,
    instant_column,
    metadata,
    partial_where,
    small_column,
    text_column,
)

_PENDING = f"status = {TaskStatus.PENDING:d}"
_NOT_COMPLETED = f"status <> {TaskStatus.COMPLETED:d}"

task = Table(
    "task",
    metadata,
    id_column(),
    text_column("project"),
    text_column("workflow", nullable=True),
    text_column("name", nullable=True),
    big_column("created_at"),
    Column("parameters", LargeBinary, nullable=False),
    Column("spec", LargeBinary, nullable=True),
    big_column("group_id", nullable=True),
    Index(None, "project", "id"),
    Index(
        "ix_task_workflow",
        "workflow",
        "id",
        **partial_where("workflow IS NOT NULL"),
    ),
    # In order of id, which is the order of a group's members.
    Index(
        "ix_task_group",
        "group_id",
        "id",
        **partial_where("group_id IS NOT NULL"),
    ),
)

live = Table(
    "live",
    metadata,
    id_column(),
    small_column("status"),
    big_column("lane"),
    small_column("round"),
    small_column("retries"),
    Column("losses", Integer, nullable=False),
    small_column("deaths"),
    Column("waits", Integer, nullable=False),
    instant_column("due_at"),
    Column("timeout_s", Integer, nullable=False),
    small_column("recall"),
    big_column("node"),
    big_column("session"),
    big_column("execution"),
    instant_column("assigned_at"),
    instant_column("started_at"),
    instant_column("deadline_at"),
    big_column("group_id", nullable=True),
    instant_column("ready_at"),
    Index("ix_live_ready", "lane", "id", **partial_where(_PENDING)),
    Index("ix_live_held", "node", "id", **partial_where("node <> 0")),
    Index(
        "ix_live_due",
        "due_at",
        **partial_where("due_at IS NOT NULL AND waits = 0"),
    ),
)

done = Table(
    "done",
    metadata,
    id_column(),
    small_column("status"),
    big_column("lane"),
    small_column("round"),
    small_column("retries"),
    Column("losses", Integer, nullable=False),
    small_column("deaths"),
    Column("timeout_s", Integer, nullable=False),
    big_column("node"),
    big_column("execution"),
    instant_column("assigned_at"),
    instant_column("started_at"),
    big_column("ended_at"),
    text_column("reason", nullable=True),
    # Columns of the execution that completed the task, which has no other row: one row less to write for nearly every
    # task. NULL where the task ended otherwise.
    big_column("session", nullable=True),
    Column("result", LargeBinary, nullable=True),
    Column("metrics", LargeBinary, nullable=True),
    big_column("group_id", nullable=True),
    # Completed tasks are the bulk, and the newest of them are found by id; the other statuses are searched for.
    Index("ix_done_status", "status", "id", **partial_where(_NOT_COMPLETED)),
    # The members that a group's progress shows first and its retry opens again.
    Index(
        "ix_done_group",
        "group_id",
        "status",
        "id",
        **partial_where(f"group_id IS NOT NULL AND {_NOT_COMPLETED}"),
    ),
)

execution = Table(
    "execution",
    metadata,
    id_column(),
    big_column("task"),
    small_column("round"),
    small_column("retry"),
    big_column("node"),
    big_column("session"),
    small_column("status"),
    big_column("assigned_at"),
    instant_column("started_at"),
    big_column("ended_at"),
    small_column("error", nullable=True),
    text_column("message", nullable=True),
    small_column("is_permanent"),
    Column("result", LargeBinary, nullable=True),
    Column("metrics", LargeBinary, nullable=True),
    Index(None, "task"),
)

# Executions that were recalled for a preemption, and the tasks that wait for their slots.
preemption = Table(
    "preemption",
    metadata,
    id_column("execution"),
    big_column("task"),
    small_column("round"),
    big_column("node"),
    big_column("waiter"),
    big_column("at"),
    Index(None, "task"),
    Index(None, "waiter"),
    Index(None, "at"),
)

# A row exists only while a task is parked: what it waits for, and until when.
parking = Table(
    "parking",
    metadata,
    id_column("task"),
    small_column("cause"),
    text_column("subject"),
    big_column("until"),
    big_column("at"),
    Column("times", Integer, nullable=False),
    text_column("message"),
    Index(None, "cause", "subject", "until"),
)

dependency = Table(
    "dependency",
    metadata,
    id_column("parent", BigInteger()),
    id_column("child", BigInteger()),
    # A value of model.flow.Edge; 0 for tasks that are in no flow.
    small_column("kind", server_default=text("0")),
    Index(None, "child"),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    id_column("task"),
    small_column("round"),
    text_column("project"),
    text_column("task_type"),
    text_column("cause"),
    small_column("error", nullable=True),
    text_column("message", nullable=True),
    small_column("is_permanent"),
    big_column("buried_at"),
    Index(None, "cause", "task"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", Text, primary_key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("answer", LargeBinary, nullable=True),
    big_column("expires_at"),
    Index(None, "expires_at"),
)

lane = Table(
    "lane",
    metadata,
    id_column(),
    text_column("queue"),
    text_column("project"),
    small_column("priority"),
    big_column("requirement_id"),
    text_column("task_type"),
    Column("requirement", LargeBinary, nullable=False),
    # The number of the sweep that found no task in the lane, or 0: see store.tasks.lane_removal.
    big_column("unused_mark", server_default=text("0")),
)

queue = Table(
    "queue",
    metadata,
    Column("name", Text, primary_key=True),
    small_column("is_paused"),
    big_column("changed_at"),
    small_column("is_lifo", server_default=text("0")),
)
