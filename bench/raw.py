"""The raw limit: insert, claim and complete in batches, three bare statements on the same database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import asyncpg

PAYLOAD = b'{"url":"https://example.com/' + b"x" * 268 + b'"}'


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
        self._next = 1

    async def insert(self, count: int) -> list[int]:
        ids = list(range(self._next, self._next + count))
        self._next += count
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("INSERT INTO raw VALUES (?, 0, 0, 0, ?)", [(i, PAYLOAD) for i in ids])
        self._db.execute("COMMIT")
        return ids

    async def cycle(self, count: int) -> None:
        ids = await self.insert(count)
        now = time.time_ns() // 1_000_000
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("UPDATE raw SET status = 1, node = ?, at = ? WHERE id = ?", [(7, now, i) for i in ids])
        self._db.execute("COMMIT")
        self._db.execute("BEGIN IMMEDIATE")
        self._db.executemany("UPDATE raw SET status = 2, at = ? WHERE id = ?", [(now, i) for i in ids])
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
        ids = await self.insert(count)
        now = time.time_ns() // 1_000_000
        await self._db.execute(
            "UPDATE raw SET status = 1, node = $2, at = $3 WHERE id = ANY($1::bigint[])", ids, 7, now
        )
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
        yield RawPostgres(connection)
    finally:
        await connection.close()
