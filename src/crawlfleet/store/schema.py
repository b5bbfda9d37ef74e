"""The schema of the tables: one description for both databases.

    task        what was submitted; written once
    live        the narrow hot row of a task that is not final; touched by primary key, deleted when final
    done        the final row, until a person's retry moves it back; with the execution that completed it
    execution   one row per other execution that ended

The hot path touches only `live`, and appends; it never reads history. The partial indexes of `live` serve the queries
of the loops: ready by lane, held by node, due by time.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, SmallInteger, Table, Text, text
from sqlalchemy.types import Double, TypeEngine

from crawlfleet.model.crawl import UrlBatchState
from crawlfleet.model.status import TaskStatus

metadata = MetaData(naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"})

# SQLite makes a key of exactly this type its row id, which appends instead of searching.
RowId = BigInteger().with_variant(Integer(), "sqlite")


def _big(name: str, **options: object) -> Column[int]:
    return Column(name, BigInteger, **{"nullable": False, **options})  # type: ignore[arg-type]


def _small(name: str, **options: object) -> Column[int]:
    return Column(name, SmallInteger, **{"nullable": False, **options})  # type: ignore[arg-type]


def _text(name: str, **options: object) -> Column[str]:
    return Column(name, Text, **{"nullable": False, **options})  # type: ignore[arg-type]


def _id(name: str = "id", kind: TypeEngine[int] = RowId) -> Column[int]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _at(name: str) -> Column[int]:
    """Make a nullable column for an instant."""
    return Column(name, BigInteger, nullable=True)


def _where(condition: str) -> dict[str, Any]:
    """Return the condition of a partial index, for both databases."""
    return {f"{dialect}_where": text(condition) for dialect in ("sqlite", "postgresql")}


_PENDING = f"status = {TaskStatus.PENDING:d}"
_NOT_COMPLETED = f"status <> {TaskStatus.COMPLETED:d}"


task = Table(
    "task",
    metadata,
    _id(),
    _text("project"),
    _text("workflow", nullable=True),
    _text("name", nullable=True),
    _big("created_at"),
    Column("parameters", LargeBinary, nullable=False),
    Column("spec", LargeBinary, nullable=True),
    _big("group_id", nullable=True),
    Index(None, "project", "id"),
    Index(
        "ix_task_workflow",
        "workflow",
        "id",
        **_where("workflow IS NOT NULL"),
    ),
    # In order of id, which is the order of a group's members.
    Index(
        "ix_task_group",
        "group_id",
        "id",
        **_where("group_id IS NOT NULL"),
    ),
)

live = Table(
    "live",
    metadata,
    _id(),
    _small("status"),
    _big("lane"),
    _small("round"),
    _small("retries"),
    Column("losses", Integer, nullable=False),
    _small("deaths"),
    Column("waits", Integer, nullable=False),
    _at("due_at"),
    Column("timeout_s", Integer, nullable=False),
    _small("recall"),
    _big("node"),
    _big("session"),
    _big("execution"),
    _at("assigned_at"),
    _at("started_at"),
    _at("deadline_at"),
    _big("group_id", nullable=True),
    Index("ix_live_ready", "lane", "id", **_where(_PENDING)),
    Index("ix_live_held", "node", "id", **_where("node <> 0")),
    Index(
        "ix_live_due",
        "due_at",
        **_where("due_at IS NOT NULL AND waits = 0"),
    ),
)

done = Table(
    "done",
    metadata,
    _id(),
    _small("status"),
    _big("lane"),
    _small("round"),
    _small("retries"),
    Column("losses", Integer, nullable=False),
    _small("deaths"),
    Column("timeout_s", Integer, nullable=False),
    _big("node"),
    _big("execution"),
    _at("assigned_at"),
    _at("started_at"),
    _big("ended_at"),
    _text("reason", nullable=True),
    # Columns of the execution that completed the task, which has no other row: one row less to write for nearly every
    # task. NULL where the task ended otherwise.
    _big("session", nullable=True),
    Column("result", LargeBinary, nullable=True),
    Column("metrics", LargeBinary, nullable=True),
    _big("group_id", nullable=True),
    # Completed tasks are the bulk, and the newest of them are found by id; the other statuses are searched for.
    Index("ix_done_status", "status", "id", **_where(_NOT_COMPLETED)),
    # The members that a group's progress shows first and its retry opens again.
    Index(
        "ix_done_group",
        "group_id",
        "status",
        "id",
        **_where(f"group_id IS NOT NULL AND {_NOT_COMPLETED}"),
    ),
)

execution = Table(
    "execution",
    metadata,
    _id(),
    _big("task"),
    _small("round"),
    _small("retry"),
    _big("node"),
    _big("session"),
    _small("status"),
    _big("assigned_at"),
    _at("started_at"),
    _big("ended_at"),
    _small("error", nullable=True),
    _text("message", nullable=True),
    _small("is_permanent"),
    Column("result", LargeBinary, nullable=True),
    Column("metrics", LargeBinary, nullable=True),
    Index(None, "task"),
)

# Executions that were recalled for a preemption, and the tasks that wait for their slots.
preemption = Table(
    "preemption",
    metadata,
    _id("execution"),
    _big("task"),
    _small("round"),
    _big("node"),
    _big("waiter"),
    _big("at"),
    Index(None, "task"),
    Index(None, "waiter"),
    Index(None, "at"),
)

# A row exists only while a task is parked: what it waits for, and until when.
parking = Table(
    "parking",
    metadata,
    _id("task"),
    _small("cause"),
    _text("subject"),
    _big("until"),
    _big("at"),
    Column("times", Integer, nullable=False),
    _text("message"),
    Index(None, "cause", "subject", "until"),
)

dependency = Table(
    "dependency",
    metadata,
    _id("parent", BigInteger()),
    _id("child", BigInteger()),
    # A value of model.flow.Edge; 0 for tasks that are in no flow.
    _small("kind", server_default=text("0")),
    Index(None, "child"),
)

# Only tasks of flows have a row here: steps with the spec by which they are decided, and the items that a step fanned
# out into.
flow_step = Table(
    "flow_step",
    metadata,
    _id("task"),
    _big("group_id"),
    _text("key"),
    Column("item", Integer, nullable=True),
    Column("items", Integer, nullable=True),
    _small("unrun"),
    Column("spec", LargeBinary, nullable=True),
    Index(None, "group_id", "task"),
)

dead_letter = Table(
    "dead_letter",
    metadata,
    _id("task"),
    _small("round"),
    _text("project"),
    _text("task_type"),
    _text("cause"),
    _small("error", nullable=True),
    _text("message", nullable=True),
    _small("is_permanent"),
    _big("buried_at"),
    Index(None, "cause", "task"),
)

task_group = Table(
    "task_group",
    metadata,
    _id(),
    _text("project"),
    _text("name", nullable=True),
    _small("kind"),
    _big("created_at"),
    _small("is_closed"),
    _at("finished_at"),
    Column("finishes", Integer, nullable=False),
    Column("spec", LargeBinary, nullable=True),
    Index(None, "project", "id"),
)

# A crawl over many nodes; it is a group, and has the group's id.
crawl = Table(
    "crawl",
    metadata,
    _id(),
    Column("members", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    _big("max_pages"),
    _big("max_ms", nullable=True),
    _big("max_bytes", nullable=True),
    _big("chunks"),
    _big("found"),
    _big("pages"),
    _big("failed"),
    _big("skipped"),
    _big("moved"),
    _big("items"),
    _big("bytes"),
    _at("started_at"),
    _at("finished_at"),
    _text("stopped_by", nullable=True),
    # Two instants with the number of pages at each: the recent rate is counted from the older one.
    _big("older_at"),
    _big("older_pages"),
    _big("newer_at"),
    _big("newer_pages"),
    # Instant of the last progress event.
    _big("told_at", server_default=text("0")),
    # Counts in comparison with the earlier crawl that the crawl names.
    _big("pages_new", server_default=text("0")),
    _big("pages_changed", server_default=text("0")),
    _big("pages_unchanged", server_default=text("0")),
    _big("pages_gone", server_default=text("0")),
)

# URLs that a crawl knows, by hash: one narrow insert each, never changed afterwards.
crawl_seen = Table(
    "crawl_seen",
    metadata,
    Column("crawl", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)

# URL batches: URLs to visit, many in one row.
crawl_chunk = Table(
    "crawl_chunk",
    metadata,
    Column("crawl", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _small("state"),
    Column("depth", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("urls", LargeBinary, nullable=True),
    _big("task"),
    _big("execution"),
    _big("first_item"),
    _big("last_item"),
    _big("first_record", server_default=text("0")),
    _big("last_record", server_default=text("0")),
    Index(
        "ix_crawl_chunk_open",
        "crawl",
        "state",
        "depth",
        "number",
        **_where(f"state < {UrlBatchState.DONE:d}"),
    ),
)

# Tasks whose rows are deleted and whose chunks (files, or objects) are still to be removed.
chunk_removal = Table("chunk_removal", metadata, _id("task"))

# A product is found by a key made of project, shop and the shop's own id.
product = Table(
    "product",
    metadata,
    _id("key"),
    _text("project"),
    _text("shop"),
    _text("product_id"),
    _text("url"),
    _text("title"),
    _text("price", nullable=True),
    _text("currency", nullable=True),
    _text("availability", nullable=True),
    Column("attributes", LargeBinary, nullable=False),
    _text("hash"),
    _big("first_seen_at"),
    _big("listed_at"),
    _big("changed_at"),
    _big("seen_at"),
    _at("gone_at"),
    Column("changes", Integer, nullable=False),
    _big("execution"),
    Index(None, "project", "shop", "key"),
    Index(None, "product_id"),
    Index(
        "ix_product_gone",
        "gone_at",
        **_where("gone_at IS NOT NULL"),
    ),
)

product_change = Table(
    "product_change",
    metadata,
    _id("product", BigInteger()),
    _id("number", Integer()),
    _big("at"),
    _small("kind"),
    Column("fields", LargeBinary, nullable=False),
    _big("execution"),
)

# What nodes with proxy pools report about them, for people.
node_proxies = Table(
    "node_proxies", metadata, _id("node"), Column("body", LargeBinary, nullable=False), _big("reported_at")
)

# Cookies that outlive executions, as JSON: they are secrets, shown only to executions of their project.
cookie_jar = Table(
    "cookie_jar",
    metadata,
    Column("project", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    _big("changed_at"),
    Index(None, "changed_at"),
)

# Counted under the status with which members ended, or 0 for members that have not ended.
group_counter = Table(
    "group_counter",
    metadata,
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    Column("status", SmallInteger, primary_key=True, autoincrement=False),
    _big("n"),
)

group_delta = Table(
    "group_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _big("group_id"),
    _small("status"),
    _big("n"),
    Index(None, "group_id"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", Text, primary_key=True),
    Column("body_hash", LargeBinary, nullable=False),
    Column("answer", LargeBinary, nullable=True),
    _big("expires_at"),
    Index(None, "expires_at"),
)

lane = Table(
    "lane",
    metadata,
    _id(),
    _text("queue"),
    _text("project"),
    _small("priority"),
    _big("requirement_id"),
    _text("task_type"),
    Column("requirement", LargeBinary, nullable=False),
    # The number of the sweep that found no task in the lane, or 0: see store.tasks.lane_removal.
    _big("unused_mark", server_default=text("0")),
)

queue = Table(
    "queue",
    metadata,
    Column("name", Text, primary_key=True),
    _small("is_paused"),
    _big("changed_at"),
    _small("is_lifo", server_default=text("0")),
)

# The projects that were configured. The fence changes with every change of quotas and every assignment by hand.
project = Table(
    "project",
    metadata,
    Column("name", Text, primary_key=True),
    Column("weight", Double, nullable=False),
    _small("on_full"),
    Column("quotas", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),
    _big("fence"),
    _big("changed_at"),
    # Whether the project has daily quotas: then its executions receive the order to count what they fetch.
    _small("is_metered", server_default=text("0")),
)

# The amounts of a project's day that are granted and were not returned: used, or held by executions.
day_use = Table(
    "day_use",
    metadata,
    Column("project", Text, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    _big("pages"),
    _big("bytes"),
)

# The amounts that an execution was granted: on the day of its last grant, and in all.
day_slice = Table(
    "day_slice",
    metadata,
    _id("execution"),
    _big("task"),
    _text("project"),
    Column("day", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    _big("day_pages"),
    _big("day_bytes"),
    _big("pages"),
    _big("bytes"),
    Index(None, "day"),
)

cluster = Table(
    "cluster",
    metadata,
    Column("name", Text, primary_key=True),
    _small("status"),
    _text("description"),
    _text("project", nullable=True),
    _big("changed_at"),
    _at("created_at"),
)

node = Table(
    "node",
    metadata,
    _id(),
    _text("join_key", unique=True),
    _text("device_id", nullable=True, unique=True),
    _text("secret_hash", nullable=True),
    Column("description", LargeBinary, nullable=False),
    _small("status"),
    _small("health"),
    Column("health_details", LargeBinary, nullable=False),
    _at("health_at"),
    Column("slots_wanted", Integer, nullable=True),
    _at("drain_by"),
    _big("created_at"),
    _at("removed_at"),
    Column("slots_measured", Integer, nullable=True),
    _small("follows_load", nullable=True),
    Index(None, "secret_hash"),
)

lease = Table(
    "lease",
    metadata,
    _id("node"),
    _big("session"),
    _small("is_open"),
    _big("renewals"),
    _big("number"),
    Column("lease_ms", Integer, nullable=False),
    _at("renewed_at"),
    Column("measurement", LargeBinary, nullable=True),
    # What the session reported about target hosts with its last renewal, and the newest version of its grants.
    Column("hosts", LargeBinary, nullable=True),
    _big("granted", nullable=True),
    # The number of the session in which the node reported that it leaves: a later session begins anew.
    _big("departing", server_default=text("0")),
)

heartbeat = Table(
    "heartbeat",
    metadata,
    _id("node", BigInteger()),
    _id("at", BigInteger()),
    Column("measurement", LargeBinary, nullable=False),
    Index(None, "at"),
)

# The term is the key: on PostgreSQL a batch of the leader share-locks the key, which a beat does not change and a
# successor's new term does.
leader = Table("leader", metadata, _id("term"), _text("holder"), _big("beats"), _big("since_at"))

master = Table(
    "master", metadata, Column("boot", RowId, primary_key=True, autoincrement=True), _text("name"), _big("started_at")
)

id_slot = Table(
    "id_slot",
    metadata,
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    _big("boot"),
    _big("until"),
    # The order in which slots were last used; not an instant, since wall clocks of masters may differ.
    _big("turn"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _big("at"),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

event_log = Table(
    "event_log",
    metadata,
    _id("first"),
    Column("count", Integer, nullable=False),
    _big("at"),
    Column("body", LargeBinary, nullable=False),
)

counter = Table(
    "counter",
    metadata,
    Column("project", Text, primary_key=True),
    Column("status", SmallInteger, primary_key=True, autoincrement=False),
    _big("n"),
)

counter_delta = Table(
    "counter_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _text("project"),
    _small("status"),
    _big("n"),
)

# Values that exist once in the whole installation: its id, where its results are.
installation = Table("installation", metadata, Column("key", Text, primary_key=True), _text("value"))

token = Table(
    "token",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _small("role"),
    _text("name"),
    _text("secret_hash", unique=True),
    _big("created_at"),
    _text("created_by"),
    _at("expires_at"),
    Column("uses_left", Integer, nullable=True),
    _at("last_used_at"),
    _at("rotated_at"),
    _text("rotated_by", nullable=True),
    _at("revoked_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _big("at"),
    _small("role", nullable=True),
    _text("name"),
    _big("token", nullable=True),
    _big("node", nullable=True),
    _text("address"),
    _text("action"),
    _text("target"),
    Column("details", LargeBinary, nullable=False),
)

task_type = Table(
    "task_type",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    _big("changed_at"),
    # The node that may change the task type, -1 for masters, 0 for none yet.
    _big("owner", server_default=text("0")),
    _big("revision", server_default=text("0")),
)

# Rates are in thousandths of a request per second.
host = Table(
    "host",
    metadata,
    Column("name", Text, primary_key=True),
    _big("rate_milli", nullable=True),
    Column("concurrency", Integer, nullable=True),
    _big("delay_ms", nullable=True),
    _text("set_by", nullable=True),
    _at("set_at"),
    _big("crawl_delay_ms"),
    _small("backoff_level"),
    _big("backoff_until"),
    _big("quiet_since"),
    _text("backoff_reason"),
    _big("requests"),
    _big("refused"),
    _big("blocked"),
    _big("recent_milli"),
    _at("counted_at"),
)

# The grant of a session, its part of a host's budget; the leader writes the rows, and numbers them.
host_share = Table(
    "host_share",
    metadata,
    _id(),
    _big("node"),
    _big("session"),
    _text("host"),
    Column("wanted", Integer, nullable=True),
    Column("rate", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("may_rate", Integer, nullable=False),
    Column("may_concurrency", Integer, nullable=False),
    _big("spacing_ms"),
    _big("cut_version"),
    _big("requests"),
    _big("refused"),
    _big("blocked"),
    Index(None, "node"),
    Index(None, "host"),
)

# Notes about hosts for the leader, which takes each row once.
host_news = Table(
    "host_news",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _text("host"),
    _small("kind"),
    _big("span_ms"),
    _big("node", nullable=True),
)

# The number of the newest batch of figures that was accepted from a node.
host_told = Table("host_told", metadata, _id("node"), _big("session"), _big("number"))

# One row for each batch of figures; the leader folds and deletes it.
host_delta = Table(
    "host_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    _big("at"),
    Column("body", LargeBinary, nullable=False),
    Column("node", BigInteger),
)

# The figures of a host: in a minute, in an hour (`at` is its start), or in all (`span_s` and `at` are 0).
host_figure = Table(
    "host_figure",
    metadata,
    Column("host", Text, primary_key=True),
    Column("span_s", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    _big("since_at"),
    _big("changed_at"),
    Column("figures", LargeBinary, nullable=False),
    Index(None, "span_s", "at"),
)

# Every version is kept, with who changed it and when.
cluster_config = Table(
    "cluster_config",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    _text("changed_by"),
    _big("changed_at"),
)

# How executions ended, by node and subject. The id is made of both: one key finds and changes a row.
evidence = Table(
    "evidence",
    metadata,
    _id(),
    _big("node"),
    _text("kind"),
    _text("subject"),
    _text("address"),
    Column("ok", Double, nullable=False),
    Column("failed", Double, nullable=False),
    Column("blocked", Double, nullable=False),
    _big("at"),
    _at("last_blocked_at"),
    Index(None, "subject", "kind"),
    Index(None, "at"),
)

schedule = Table(
    "schedule",
    metadata,
    _id(),
    _text("name", nullable=True),
    _text("project"),
    _text("task_type"),
    Column("task", LargeBinary, nullable=False),
    _at("at"),
    Column("every_s", Integer, nullable=True),
    _text("cron", nullable=True),
    _text("time_zone"),
    _at("starts_at"),
    _at("ends_at"),
    Column("jitter_s", Integer, nullable=False),
    _big("anchor_at"),
    _small("catch_up"),
    _small("overlap"),
    _small("is_paused"),
    _big("created_at"),
    _text("created_by"),
    _big("changed_at"),
    _big("fired_until"),
    _at("next_at"),
    _at("due_at"),
    _at("held_at"),
    _big("held_for", nullable=True),
    Column("recent", LargeBinary, nullable=False),
    _text("last_error", nullable=True),
    _big("revision"),
    Index(
        "ix_schedule_due",
        "due_at",
        **_where("due_at IS NOT NULL"),
    ),
    Index("ix_schedule_held", "id", **_where("held_at IS NOT NULL")),
    Index(
        "ix_schedule_ended",
        "fired_until",
        **_where("next_at IS NULL"),
    ),
    Index(None, "project", "id"),
)

# The primary key keeps a tick from being fired twice, whatever else goes wrong.
tick = Table(
    "tick",
    metadata,
    _id("schedule", BigInteger()),
    _id("at", BigInteger()),
    _small("status"),
    _big("task", nullable=True),
    _big("made_at"),
    _text("reason", nullable=True),
    Index(None, "made_at"),
)
