"""Tables of alerts: changed rules, states, groups, acknowledgements, silences, channels and notices."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table, Text

from crawlfleet.ports.alert_store import NoticeStatus
from crawlfleet.store.schema.columns import (
    big_column,
    id_column,
    instant_column,
    metadata,
    partial_where,
    small_column,
    text_column,
)

# What people changed of the built-in rules, and rules of their own.
alert_rule = Table(
    "alert_rule",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    big_column("changed_at"),
    text_column("changed_by"),
)

# Only of alerts that are not simply ok. The key is made of rule and scope: one list of keys finds them.
alert_state = Table(
    "alert_state",
    metadata,
    Column("key", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

alert_group = Table(
    "alert_group",
    metadata,
    Column("key", Text, primary_key=True),
    instant_column("due_at"),
    instant_column("sent_at"),
)

# Apart from the state, which the leader writes: a person's word is never overwritten by a pass under way.
acknowledgement = Table(
    "acknowledgement",
    metadata,
    Column("key", Text, primary_key=True),
    big_column("acknowledged_at"),
    text_column("acknowledged_by"),
    text_column("acknowledged_why"),
)

silence = Table(
    "silence",
    metadata,
    id_column(),
    Column("matchers", LargeBinary, nullable=False),
    big_column("starts_at"),
    big_column("until_at"),
    text_column("why"),
    text_column("created_by"),
    big_column("created_at"),
)

alert_channel = Table(
    "alert_channel",
    metadata,
    Column("name", Text, primary_key=True),
    text_column("kind"),
    Column("fields", LargeBinary, nullable=False),
    text_column("language"),
    small_column("is_enabled"),
    text_column("disabled_why"),
    big_column("failures"),
    instant_column("failing_since"),
    text_column("last_answer"),
    instant_column("last_sent_at"),
    big_column("changed_at"),
    text_column("changed_by"),
)

notice = Table(
    "notice",
    metadata,
    id_column(),
    text_column("channel"),
    small_column("status"),
    big_column("due_at"),
    instant_column("leased_until"),
    big_column("tries"),
    instant_column("tried_at"),
    text_column("answer"),
    big_column("merged_into", nullable=True),
    Column("body", LargeBinary, nullable=False),
    Index(None, "due_at", **partial_where(f"status = {NoticeStatus.DUE:d}")),
    Index(None, "channel", "tried_at"),
)
