"""Tables of projects and their daily quotas."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, Table, Text, text
from sqlalchemy.types import Double

from crawlfleet.store.schema.columns import big_column, id_column, metadata, small_column, text_column

# The projects that were configured. The fence changes with every change of quotas and every assignment by hand.
project = Table(
    "project",
    metadata,
    Column("name", Text, primary_key=True),
    Column("weight", Double, nullable=False),
    small_column("on_full"),
    Column("quotas", LargeBinary, nullable=False),
    Column("version", Integer, nullable=False),
    big_column("fence"),
    big_column("changed_at"),
    # Whether the project has daily quotas: then its executions receive the order to count what they fetch.
    small_column("is_metered", server_default=text("0")),
)

# The amounts of a project's day that are granted and were not returned: used, or held by executions.
day_use = Table(
    "day_use",
    metadata,
    Column("project", Text, primary_key=True),
    Column("day", Integer, primary_key=True, autoincrement=False),
    big_column("pages"),
    big_column("bytes"),
)

# The amounts that an execution was granted: on the day of its last grant, and in all.
day_slice = Table(
    "day_slice",
    metadata,
    id_column("execution"),
    big_column("task"),
    text_column("project"),
    Column("day", Integer, nullable=False),
    Column("number", Integer, nullable=False),
    big_column("day_pages"),
    big_column("day_bytes"),
    big_column("pages"),
    big_column("bytes"),
    Index(None, "day"),
)
