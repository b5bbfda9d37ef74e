"""The raw loops write what they say, on each database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg
import pytest

from crawlfleet.bootstrap.maintenance.raw_loops import BATCH, PostgresRawLoop, SqliteRawLoop

pytestmark = pytest.mark.integration


async def test_sqlite(tmp_path: Path) -> None:
    loop = SqliteRawLoop(tmp_path / "raw.db")
    assert await loop.move_rows(0.01) > 0
    assert await loop.insert_rows(0.01) > 0
    assert await loop.commit_ms(3) > 0
    await loop.close()
    with closing(sqlite3.connect(tmp_path / "raw.db")) as file:
        count = file.execute("SELECT COUNT(*) FROM crawlfleet_bench").fetchone()[0]
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert count >= BATCH + 3
    assert count % BATCH == 3


@pytest.mark.postgres
async def test_postgresql(postgres_dsn: str) -> None:
    loop = await PostgresRawLoop.open(postgres_dsn)
    assert await loop.move_rows(0.01) > 0
    assert await loop.insert_rows(0.01) > 0
    assert await loop.commit_ms(3) > 0
    connection = await asyncpg.connect(postgres_dsn)
    try:
        assert await connection.fetchval("SELECT COUNT(*) FROM crawlfleet_bench") % BATCH == 3
        await loop.close()
        assert await connection.fetchval("SELECT to_regclass('crawlfleet_bench')") is None
    finally:
        await connection.close()
