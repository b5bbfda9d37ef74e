"""Tables of groups, flows, crawls over many nodes, products and schedules."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, SmallInteger, Table, text

from crawlfleet.model.crawl import UrlBatchState
from crawlfleet.model.schedule import TickStatus
from crawlfleet.store.schema.columns import (
    RowId,
    big_column,
    id_column,
    instant_column,
    metadata,
    partial_where,
    small_column,
    text_column,
)

# Only tasks of flows have a row here: steps with the spec by which they are decided, and the items that a step fanned
# out into.
flow_step = Table(
    "flow_step",
    metadata,
    id_column("task"),
    big_column("group_id"),
    text_column("key"),
    Column("item", Integer, nullable=True),
    Column("items", Integer, nullable=True),
    small_column("unrun"),
    Column("spec", LargeBinary, nullable=True),
    Index(None, "group_id", "task"),
)

task_group = Table(
    "task_group",
    metadata,
    id_column(),
    text_column("project"),
    text_column("name", nullable=True),
    small_column("kind"),
    big_column("created_at"),
    small_column("is_closed"),
    instant_column("finished_at"),
    Column("finishes", Integer, nullable=False),
    Column("spec", LargeBinary, nullable=True),
    Index(None, "project", "id"),
)

# A crawl over many nodes; it is a group, and has the group's id.
crawl = Table(
    "crawl",
    metadata,
    id_column(),
    Column("members", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    big_column("max_pages"),
    big_column("max_ms", nullable=True),
    big_column("max_bytes", nullable=True),
    big_column("chunks"),
    big_column("found"),
    big_column("pages"),
    big_column("failed"),
    big_column("skipped"),
    big_column("moved"),
    big_column("items"),
    big_column("bytes"),
    instant_column("started_at"),
    instant_column("finished_at"),
    text_column("stopped_by", nullable=True),
    # Two instants with the number of pages at each: the recent rate is counted from the older one.
    big_column("older_at"),
    big_column("older_pages"),
    big_column("newer_at"),
    big_column("newer_pages"),
    # Instant of the last progress event.
    big_column("told_at", server_default=text("0")),
    # Counts in comparison with the earlier crawl that the crawl names.
    big_column("pages_new", server_default=text("0")),
    big_column("pages_changed", server_default=text("0")),
    big_column("pages_unchanged", server_default=text("0")),
    big_column("pages_gone", server_default=text("0")),
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
    small_column("state"),
    Column("depth", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("urls", LargeBinary, nullable=True),
    big_column("task"),
    big_column("execution"),
    big_column("first_item"),
    big_column("last_item"),
    big_column("first_record", server_default=text("0")),
    big_column("last_record", server_default=text("0")),
    Index(
        "ix_crawl_chunk_open",
        "crawl",
        "state",
        "depth",
        "number",
        **partial_where(f"state < {UrlBatchState.DONE:d}"),
    ),
)

# A product is found by a key made of project, shop and the shop's own id.
product = Table(
    "product",
    metadata,
    id_column("key"),
    text_column("project"),
    text_column("shop"),
    text_column("product_id"),
    text_column("url"),
    text_column("title"),
    text_column("price", nullable=True),
    text_column("currency", nullable=True),
    text_column("availability", nullable=True),
    Column("attributes", LargeBinary, nullable=False),
    text_column("hash"),
    big_column("first_seen_at"),
    big_column("listed_at"),
    big_column("changed_at"),
    big_column("seen_at"),
    instant_column("gone_at"),
    Column("changes", Integer, nullable=False),
    big_column("execution"),
    Index(None, "project", "shop", "key"),
    Index(None, "product_id"),
    Index(
        "ix_product_gone",
        "gone_at",
        **partial_where("gone_at IS NOT NULL"),
    ),
)

product_change = Table(
    "product_change",
    metadata,
    id_column("product", BigInteger()),
    id_column("number", Integer()),
    big_column("at"),
    small_column("kind"),
    Column("fields", LargeBinary, nullable=False),
    big_column("execution"),
)

# Counted under the status with which members ended, or 0 for members that have not ended.
group_counter = Table(
    "group_counter",
    metadata,
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    Column("status", SmallInteger, primary_key=True, autoincrement=False),
    big_column("n"),
)

group_delta = Table(
    "group_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    big_column("group_id"),
    small_column("status"),
    big_column("n"),
    Index(None, "group_id"),
)

schedule = Table(
    "schedule",
    metadata,
    id_column(),
    text_column("name", nullable=True),
    text_column("project"),
    text_column("task_type"),
    Column("task", LargeBinary, nullable=False),
    instant_column("at"),
    Column("every_s", Integer, nullable=True),
    text_column("cron", nullable=True),
    text_column("time_zone"),
    instant_column("starts_at"),
    instant_column("ends_at"),
    Column("jitter_s", Integer, nullable=False),
    big_column("anchor_at"),
    small_column("catch_up"),
    small_column("overlap"),
    small_column("is_paused"),
    big_column("created_at"),
    text_column("created_by"),
    big_column("changed_at"),
    big_column("fired_until"),
    instant_column("next_at"),
    instant_column("due_at"),
    instant_column("held_at"),
    big_column("held_for", nullable=True),
    Column("recent", LargeBinary, nullable=False),
    text_column("last_error", nullable=True),
    big_column("revision"),
    Index(
        "ix_schedule_due",
        "due_at",
        **partial_where("due_at IS NOT NULL"),
    ),
    Index("ix_schedule_held", "id", **partial_where("held_at IS NOT NULL")),
    Index(
        "ix_schedule_ended",
        "fired_until",
        **partial_where("next_at IS NULL"),
    ),
    Index(None, "project", "id"),
)

# The primary key keeps a tick from being fired twice, whatever else goes wrong.
tick = Table(
    "tick",
    metadata,
    id_column("schedule", BigInteger()),
    id_column("at", BigInteger()),
    small_column("status"),
    big_column("task", nullable=True),
    big_column("made_at"),
    text_column("reason", nullable=True),
    Index(None, "made_at"),
    # The few that a person may want to know of.
    Index(
        "ix_tick_left_out",
        "made_at",
        **partial_where(f"status IN ({TickStatus.SKIPPED:d}, {TickStatus.REFUSED:d})"),
    ),
)
