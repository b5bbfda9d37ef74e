"""Tables of events, tokens, audit log, configuration, evidence; and what is left to be removed."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text
from sqlalchemy.types import Double

from crawlfleet.store.schema.columns import (
    RowId,
    big_column,
    id_column,
    instant_column,
    metadata,
    small_column,
    text_column,
)

# Tasks whose rows are deleted and whose chunks (files, or objects) are still to be removed.
chunk_removal = Table("chunk_removal", metadata, id_column("task"))

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    big_column("at"),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

event_log = Table(
    "event_log",
    metadata,
    id_column("first"),
    Column("count", Integer, nullable=False),
    big_column("at"),
    Column("body", LargeBinary, nullable=False),
)

# Values that exist once in the whole installation: its id, where its results are.
installation = Table("installation", metadata, Column("key", Text, primary_key=True), text_column("value"))

token = Table(
    "token",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    small_column("role"),
    text_column("name"),
    text_column("secret_hash", unique=True),
    big_column("created_at"),
    text_column("created_by"),
    instant_column("expires_at"),
    Column("uses_left", Integer, nullable=True),
    instant_column("last_used_at"),
    instant_column("rotated_at"),
    text_column("rotated_by", nullable=True),
    instant_column("revoked_at"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    big_column("at"),
    small_column("role", nullable=True),
    text_column("name"),
    big_column("token", nullable=True),
    big_column("node", nullable=True),
    text_column("address"),
    text_column("action"),
    text_column("target"),
    Column("details", LargeBinary, nullable=False),
)

# Every version is kept, with who changed it and when.
cluster_config = Table(
    "cluster_config",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    text_column("changed_by"),
    big_column("changed_at"),
)

# How executions ended, by node and subject. The id is made of both: one key finds and changes a row.
evidence = Table(
    "evidence",
    metadata,
    id_column(),
    big_column("node"),
    text_column("kind"),
    text_column("subject"),
    text_column("address"),
    Column("ok", Double, nullable=False),
    Column("failed", Double, nullable=False),
    Column("blocked", Double, nullable=False),
    big_column("at"),
    instant_column("last_blocked_at"),
    Index(None, "subject", "kind"),
    Index(None, "at"),
)
