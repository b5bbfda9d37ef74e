"""The raw limit: a queue of one table, insert, claim the oldest and complete in batches, three bare statements.

No node is chosen, no history, event or counter is written, and nothing is fenced: what a queue costs at the least.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import asyncpg

PAYLOAD = b'{"url":"https://example.com/' + b"x" * 268 + b'"}'

CLAIM_SQLITE = (
    "UPDATE raw SET status = 1, node = ?, at = ? "
    "WHERE id IN (SELECT id FROM raw WHERE status = 0 ORDER BY id LIMIT ?) RETURNING id"
)
CLAIM_POSTGRES = (
    "WITH picked AS MATERIALIZED (SELECT id FROM raw WHERE status = 0 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) "
    "UPDATE raw SET status = 1, node = $1, at = $2 FROM picked WHERE raw.id = picked.id RETURNING raw.id"
)


class RawTable(Protocol):
    async def insert(self, count: int) -> list[int]: ...

    async def cycle(self, count: int) -> None:
        """Insert, claim, complete; a commit after each."""
        ...


class RawSqlite:
    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "cache_size = -65536"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("CREATE TABLE raw (id INTEGER PRIMARY KEY, status INT, node INT, at INT, payload BLOB)")
        self._db.execute("CREATE INDEX ready ON raw (id) WHERE status = 0")
        self._next = 1

    async def insert(self, count: int) -> list[int]:
        ids = list(range(self._next, self._next + count))
        self._next += count
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO raw VALUES (?, 0, 0, 0, ?)", [(i, PAYLOAD) for i in ids])
        self._db.execute("COMMIT")
        return ids

    async def cycle(self, count: int) -> None:
        await self.insert(count)
        now = time.time_ns() // 1_000_000
        self._db.execute("BEGIN IMMEDIATE")
        ids = self._db.execute(CLAIM_SQLITE, (7, now, count)).fetchall()
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("UPDATE raw SET status = 2, at = ? WHERE id = ?", [(now, i) for (i,) in ids])
        self._db.execute("COMMIT")

    def close(self) -> None:
        self._db.close()


class RawPostgres:
    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._db = connection
        self._next = 1

    async def insert(self, count: int) -> list[int]:
        ids = list(range(self._next, self._next + count))
        self._next += count
        sql = "INSERT INTO raw SELECT id, 0, 0, 0, payload FROM unnest($1::bigint[], $2::bytea[]) AS r(id, payload)"
        await self._db.execute(sql, ids, [PAYLOAD] * count)
        return ids

    async def copy(self, count: int) -> None:
        rows = [(i, 0, 0, 0, PAYLOAD) for i in range(self._next, self._next + count)]
        self._next += count
        await self._db.copy_records_to_table("raw", records=rows)

    async def cycle(self, count: int) -> None:
        await self.insert(count)
        now = time.time_ns() // 1_000_000
        ids = [row[0] for row in await self._db.fetch(CLAIM_POSTGRES, 7, now, count)]
        await self._db.execute("UPDATE raw SET status = 2, at = $2 WHERE id = ANY($1::bigint[])", ids, now)


@asynccontextmanager
async def raw_sqlite(folder: Path) -> AsyncIterator[RawTable]:
    table = RawSqlite(folder / "raw.db")
    try:
        yield table
    finally:
        table.close()


@asynccontextmanager
async def raw_postgres(dsn: str) -> AsyncIterator[RawTable]:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "CREATE TABLE raw (id BIGINT PRIMARY KEY, status INT, node BIGINT, at BIGINT, payload BYTEA)"
        )
        await connection.execute("CREATE INDEX ready ON raw (id) WHERE status = 0")
        yield RawPostgres(connection)
    finally:
        await connection.close()
