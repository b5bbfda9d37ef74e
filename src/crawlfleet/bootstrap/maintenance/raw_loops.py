"""Raw loops: the rows that a task costs at least, written without anything around them, on the same database.

They are what a benchmark divides by, so that its figures say something about crawlfleet and not about the machine.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Protocol

import asyncpg

from crawlfleet.bootstrap.maintenance.threads import run_in_thread

BATCH = 100
"""Rows in one transaction."""
_BODY_BYTES = 200
_TABLE = "crawlfleet_bench"


class RawLoop(Protocol):
    async def insert_rows(self, seconds: float) -> float:
        """Insert rows, `BATCH` in a transaction, for that span; returns rows per second."""
        ...

    async def move_rows(self, seconds: float) -> float:
        """Insert rows, change them and delete them, each in a transaction for `BATCH` rows; returns rows per
        second."""
        ...

    async def commit_ms(self, count: int) -> float:
        """Return the median time of a transaction with one row, in milliseconds."""
        ...

    async def close(self) -> None: ...


class SqliteRawLoop:
    """The loop on a SQLite file of its own, with the settings of a master: WAL, synchronous=FULL."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute(f"CREATE TABLE {_TABLE} (id INTEGER PRIMARY KEY, status INTEGER, body BLOB)")
        self._next_id = 1

    async def insert_rows(self, seconds: float) -> float:
        return await run_in_thread(lambda: self._run_batches(seconds, is_moving=False))

    async def move_rows(self, seconds: float) -> float:
        return await run_in_thread(lambda: self._run_batches(seconds, is_moving=True))

    async def commit_ms(self, count: int) -> float:
        return await run_in_thread(lambda: self._time_commits(count))

    async def close(self) -> None:
        self._connection.close()

    def _run_batches(self, seconds: float, *, is_moving: bool) -> float:
        body = os.urandom(_BODY_BYTES)
        began, rows = time.perf_counter(), 0
        with closing(self._connection.cursor()) as cursor:
            while (took := time.perf_counter() - began) < seconds:
                ids = range(self._next_id, self._next_id + BATCH)
                self._next_id += BATCH
                steps = [(f"INSERT INTO {_TABLE} VALUES (?, 0, ?)", [(row, body) for row in ids])]
                if is_moving:
                    keys: list[tuple[int, bytes]] = [(row, b"") for row in ids]
                    steps.append((f"UPDATE {_TABLE} SET status = 1 WHERE id = ? AND body <> ?", keys))
                    steps.append((f"DELETE FROM {_TABLE} WHERE id = ? AND body <> ?", keys))
                for sql, args in steps:
                    cursor.execute("BEGIN IMMEDIATE")
                    cursor.executemany(sql, args)
                    cursor.execute("COMMIT")
                rows += BATCH
        return rows / took

    def _time_commits(self, count: int) -> float:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            self._connection.execute(f"INSERT INTO {_TABLE} VALUES (?, 0, ?)", (self._next_id, b"x" * _BODY_BYTES))
            times.append(time.perf_counter() - began)
            self._next_id += 1
        return sorted(times)[count // 2] * 1000


class PostgresRawLoop:
    """The loop in a table of its own in the same PostgreSQL database."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection
        self._next_id = 1

    @classmethod
    async def open(cls, address: str) -> PostgresRawLoop:
        connection = await asyncpg.connect(address)
        await connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        await connection.execute(f"CREATE TABLE {_TABLE} (id bigint PRIMARY KEY, status smallint, body bytea)")
        return cls(connection)

    async def insert_rows(self, seconds: float) -> float:
        return await self._run_batches(seconds, is_moving=False)

    async def move_rows(self, seconds: float) -> float:
        return await self._run_batches(seconds, is_moving=True)

    async def commit_ms(self, count: int) -> float:
        times = []
        sql = f"INSERT INTO {_TABLE} VALUES ($1, 0, $2)"
        for _ in range(count):
            began = time.perf_counter()
            await self._connection.execute(sql, self._next_id, b"x" * _BODY_BYTES)
            times.append(time.perf_counter() - began)
            self._next_id += 1
        return sorted(times)[count // 2] * 1000

    async def close(self) -> None:
        try:
            await self._connection.execute(f"DROP TABLE IF EXISTS {_TABLE}")
        finally:
            self._connection.terminate()

    async def _run_batches(self, seconds: float, *, is_moving: bool) -> float:
        body = os.urandom(_BODY_BYTES)
        insert = f"INSERT INTO {_TABLE} SELECT id, 0, $2 FROM unnest($1::bigint[]) AS id"
        began, rows = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < seconds:
            ids = list(range(self._next_id, self._next_id + BATCH))
            self._next_id += BATCH
            await self._connection.execute(insert, ids, body)
            if is_moving:
                await self._connection.execute(f"UPDATE {_TABLE} SET status = 1 WHERE id = ANY($1)", ids)
                await self._connection.execute(f"DELETE FROM {_TABLE} WHERE id = ANY($1)", ids)
            rows += BATCH
        return rows / took
