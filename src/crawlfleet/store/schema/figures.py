"""Tables of counters and task figures: the deltas that transactions write, and what the leader folds them into."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, Table, Text

from crawlfleet.store.schema.columns import RowId, big_column, id_column, metadata

# One row for each transaction that changed tasks: how many tasks of which lane changed to which status, and the task
# figures by lane and node.
figure_delta = Table(
    "figure_delta",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    big_column("at"),
    Column("body", LargeBinary, nullable=False),
)

counter = Table(
    "counter",
    metadata,
    Column("project", Text, primary_key=True),
    Column("status", SmallInteger, primary_key=True, autoincrement=False),
    big_column("n"),
)

lane_counter = Table(
    "lane_counter",
    metadata,
    id_column("lane", BigInteger()),
    Column("status", SmallInteger, primary_key=True, autoincrement=False),
    big_column("n"),
)

# The key is in the order in which a chart reads: all spans of one series.
figure = Table(
    "figure",
    metadata,
    Column("series", Text, primary_key=True),
    Column("span_s", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

figure_total = Table(
    "figure_total",
    metadata,
    Column("series", Text, primary_key=True),
    big_column("since_at"),
    big_column("changed_at"),
    Column("body", LargeBinary, nullable=False),
)

# Counts since the installation began, of things whose rows are removed after a while.
tally = Table("tally", metadata, Column("name", Text, primary_key=True), big_column("n"))
