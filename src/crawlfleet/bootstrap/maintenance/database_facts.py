"""What a backup records of a database: its installation, the revision of its tables, and what it counts."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.status import TaskStatus

INSTALLATION = "SELECT value FROM installation WHERE key = 'id'"
REVISION = "SELECT version_num FROM alembic_version"
TASKS = "SELECT status, COUNT(*) FROM (SELECT status FROM live UNION ALL SELECT status FROM done) AS s GROUP BY status"
SET_FACT = (
    "INSERT INTO installation (key, value) VALUES ({key}, {value}) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
VERSION_TABLE = "alembic_version"
"""Table in which the migrations keep the revision; a database with tables of crawlfleet has it."""


class DatabaseFacts(NamedTuple):
    installation: str
    revision: str
    store_version: str
    tables: dict[str, int]
    tasks: dict[str, int]


def tasks_by_word(rows: list[tuple[int, int]]) -> dict[str, int]:
    """Return the number of tasks by the word of their status, in the order of the statuses."""
    counts = dict(rows)
    return {status.word: counts[status] for status in TaskStatus if counts.get(status)}
