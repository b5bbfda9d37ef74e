"""Tables of target hosts: limits, grants and figures; and cookie jars."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from crawlfleet.store.schema.columns import (
    RowId,
    big_column,
    id_column,
    instant_column,
    metadata,
    small_column,
    text_column,
)

# Cookies that outlive executions, as JSON: they are secrets, shown only to executions of their project.
cookie_jar = Table(
    "cookie_jar",
    metadata,
    Column("project", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    big_column("changed_at"),
    Index(None, "changed_at"),
)

# Rates are in thousandths of a request per second.
host = Table(
    "host",
    metadata,
    Column("name", Text, primary_key=True),
    big_column("rate_milli", nullable=True),
    Column("concurrency", Integer, nullable=True),
    big_column("delay_ms", nullable=True),
    text_column("set_by", nullable=True),
    instant_column("set_at"),
    big_column("crawl_delay_ms"),
    small_column("backoff_level"),
    big_column("backoff_until"),
    big_column("quiet_since"),
    text_column("backoff_reason"),
    big_column("requests"),
    big_column("refused"),
    big_column("blocked"),
    big_column("recent_milli"),
    instant_column("counted_at"),
)

# The grant of a session, its part of a host's budget; the leader writes the rows, and numbers them.
host_share = Table(
    "host_share",
    metadata,
    id_column(),
    big_column("node"),
    big_column("session"),
    text_column("host"),
    Column("wanted", Integer, nullable=True),
    Column("rate", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("may_rate", Integer, nullable=False),
    Column("may_concurrency", Integer, nullable=False),
    big_column("spacing_ms"),
    big_column("cut_version"),
    big_column("requests"),
    big_column("refused"),
    big_column("blocked"),
    Index(None, "node"),
    Index(None, "host"),
)

# Notes about hosts for the leader, which takes each row once.
host_news = Table(
    "host_news",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    text_column("host"),
    small_column("kind"),
    big_column("span_ms"),
    big_column("node", nullable=True),
)

# The number of the newest batch of figures that was accepted from a node.
host_told = Table("host_told", metadata, id_column("node"), big_column("session"), big_column("number"))

# One row for each batch of figures; the leader folds and deletes it.
host_delta = Table(
    "host_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    big_column("at"),
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
    big_column("since_at"),
    big_column("changed_at"),
    Column("figures", LargeBinary, nullable=False),
    Index(None, "span_s", "at"),
)
