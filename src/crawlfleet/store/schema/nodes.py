"""Tables of nodes, clusters, sessions, task types and masters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, SmallInteger, Table, Text, text

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

# What nodes with proxy pools report about them, for people.
node_proxies = Table(
    "node_proxies", metadata, id_column("node"), Column("body", LargeBinary, nullable=False), big_column("reported_at")
)

cluster = Table(
    "cluster",
    metadata,
    Column("name", Text, primary_key=True),
    small_column("status"),
    text_column("description"),
    text_column("project", nullable=True),
    big_column("changed_at"),
    instant_column("created_at"),
)

node = Table(
    "node",
    metadata,
    id_column(),
    text_column("join_key", unique=True),
    text_column("device_id", nullable=True, unique=True),
    text_column("secret_hash", nullable=True),
    Column("description", LargeBinary, nullable=False),
    small_column("status"),
    small_column("health"),
    Column("health_details", LargeBinary, nullable=False),
    instant_column("health_at"),
    Column("slots_wanted", Integer, nullable=True),
    instant_column("drain_by"),
    big_column("created_at"),
    instant_column("removed_at"),
    Column("slots_measured", Integer, nullable=True),
    small_column("follows_load", nullable=True),
    Index(None, "secret_hash"),
)

lease = Table(
    "lease",
    metadata,
    id_column("node"),
    big_column("session"),
    small_column("is_open"),
    big_column("renewals"),
    big_column("number"),
    Column("lease_ms", Integer, nullable=False),
    instant_column("renewed_at"),
    Column("measurement", LargeBinary, nullable=True),
    # What the session reported about target hosts with its last renewal, and the newest version of its grants.
    Column("hosts", LargeBinary, nullable=True),
    big_column("granted", nullable=True),
    # The number of the session in which the node reported that it leaves: a later session begins anew.
    big_column("departing", server_default=text("0")),
)

# The newest pull of each simple client. `held` lists the executions that the node had when it was opened, `delivered`
# those that an answer has brought to it, with the instant.
pull = Table(
    "pull",
    metadata,
    id_column("node"),
    big_column("session"),
    big_column("number"),
    Column("want", Integer, nullable=False),
    Column("span_ms", Integer, nullable=False),
    Column("filter", LargeBinary, nullable=False),
    Column("held", LargeBinary, nullable=False),
    Column("delivered", LargeBinary, nullable=False),
    Index("ix_pull_open", "node", **partial_where("want > 0")),
)

heartbeat = Table(
    "heartbeat",
    metadata,
    id_column("node", BigInteger()),
    id_column("at", BigInteger()),
    Column("measurement", LargeBinary, nullable=False),
    Index(None, "at"),
)

# The term is the key: on PostgreSQL a batch of the leader share-locks the key, which a beat does not change and a
# successor's new term does.
leader = Table(
    "leader", metadata, id_column("term"), text_column("holder"), big_column("beats"), big_column("since_at")
)

master = Table(
    "master",
    metadata,
    Column("boot", RowId, primary_key=True, autoincrement=True),
    text_column("name"),
    big_column("started_at"),
    text_column("version", server_default=text("''")),
    # The URL under which nodes reach the master.
    text_column("address", server_default=text("''")),
    # By the clock of the database; set again by each beat, and to 0 when the master stops in good order.
    big_column("seen_at"),
    Column("figures", LargeBinary, nullable=True),
)

id_slot = Table(
    "id_slot",
    metadata,
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    big_column("boot"),
    big_column("until"),
    # The order in which slots were last used; not an instant, since wall clocks of masters may differ.
    big_column("turn"),
)

task_type = Table(
    "task_type",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    big_column("changed_at"),
    # The node that may change the task type, -1 for masters, 0 for none yet.
    big_column("owner", server_default=text("0")),
    big_column("revision", server_default=text("0")),
)
