"""Checks a database for damage and for rows that contradict each other. It only reads, and a master may work
meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import asyncpg

from crawlfleet.bootstrap.maintenance import postgres_programs, sqlite_files
from crawlfleet.bootstrap.maintenance.sole_access import sqlite_path
from crawlfleet.bootstrap.maintenance.threads import run_in_thread
from crawlfleet.model.status import TaskStatus

if TYPE_CHECKING:
    from pathlib import Path

    Connection = asyncpg.Connection[asyncpg.Record]

_BAD_LETTERS = ", ".join(str(int(status)) for status in (TaskStatus.FAILED, TaskStatus.TIMEOUT))
CONTRADICTIONS: Mapping[str, str] = {
    "tasks that are open and final at once": "SELECT COUNT(*) FROM live l JOIN done d ON d.id = l.id",
    "tasks that are neither open nor final": (
        "SELECT COUNT(*) FROM task t WHERE NOT EXISTS (SELECT 1 FROM live l WHERE l.id = t.id) "
        "AND NOT EXISTS (SELECT 1 FROM done d WHERE d.id = t.id)"
    ),
    "open rows without their task": (
        "SELECT COUNT(*) FROM live l WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = l.id)"
    ),
    "final rows without their task": (
        "SELECT COUNT(*) FROM done d WHERE NOT EXISTS (SELECT 1 FROM task t WHERE t.id = d.id)"
    ),
    "open tasks in lanes that do not exist": (
        "SELECT COUNT(*) FROM live l WHERE NOT EXISTS (SELECT 1 FROM lane n WHERE n.id = l.lane)"
    ),
    "tasks held by nodes that do not exist": (
        "SELECT COUNT(*) FROM live l WHERE l.node <> 0 AND NOT EXISTS (SELECT 1 FROM node n WHERE n.id = l.node)"
    ),
    "dead letters of tasks that did not fail": (
        "SELECT COUNT(*) FROM dead_letter b WHERE NOT EXISTS "
        f"(SELECT 1 FROM done d WHERE d.id = b.task AND d.status IN ({_BAD_LETTERS}))"
    ),
}
"""Queries that count rows which contradict each other; each finds none in a sound store."""
_INDEXES = (
    "SELECT c.oid, c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
    "WHERE a.amname = 'btree' AND i.indisvalid AND c.relnamespace = current_schema()::regnamespace ORDER BY c.relname"
)
_HAS_AMCHECK = "SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck')"


class StoreReport(NamedTuple):
    store: str
    damage: Sequence[str]
    """What the database's own check found."""
    contradictions: Mapping[str, int]
    """Number of rows by kind of contradiction, without zeros."""
    note: str | None = None
    """What could not be checked, and how it could be."""

    @property
    def is_sound(self) -> bool:
        return not self.damage and not self.contradictions


async def check_store(address: str) -> StoreReport:
    """Check the database at this address. Raises ConfigError where there is no installation."""
    path = sqlite_path(address)
    if path is not None:
        return await run_in_thread(lambda: _check_sqlite(path))
    async with postgres_programs.connected(address) as connection:
        await postgres_programs.read_facts(connection)
        return await _check_postgres(connection)


def _check_sqlite(path: Path) -> StoreReport:
    if damage := sqlite_files.find_damage(path):
        return StoreReport("sqlite", damage, {})
    sqlite_files.read_facts(path)
    with sqlite_files.open_file(path) as connection:
        # One transaction: a master that works meanwhile moves rows from table to table.
        connection.execute("BEGIN")
        counts = {what: connection.execute(sql).fetchone()[0] for what, sql in CONTRADICTIONS.items()}
    return StoreReport("sqlite", (), _without_zeros(counts))


async def _check_postgres(connection: Connection) -> StoreReport:
    has_amcheck = await connection.fetchval(_HAS_AMCHECK)
    damage: list[str] = []
    if has_amcheck:
        for oid, name in await connection.fetch(_INDEXES):
            try:
                await connection.execute(f"SELECT bt_index_check({oid}::oid::regclass)")
            except (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError) as exc:
                damage.append(f"index {name}: {exc}")
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        counts = {what: int(await connection.fetchval(sql)) for what, sql in CONTRADICTIONS.items()}
    note = None if has_amcheck else "indexes were not checked: CREATE EXTENSION amcheck makes that possible"
    return StoreReport("postgresql", damage, _without_zeros(counts), note)


def _without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    return {what: count for what, count in counts.items() if count}
