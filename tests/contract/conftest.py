"""Backends of the contract suites. The suites are plain modules: their asserts are to explain themselves too."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from crawlfleet.store import tables
from crawlfleet.store.migrate import migrate_postgres, migrate_sqlite
from crawlfleet.store.postgres.engine import PostgresEngine
from crawlfleet.store.query import QueryEngine
from crawlfleet.store.sqlite.engine import InlineEngine, SqliteEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.testing.servers import PostgresServer

for suite in Path(__file__).parent.glob("suite_*.py"):
    pytest.register_assert_rewrite(f"tests.contract.{suite.stem}")

Open = Callable[[], Awaitable[SqlStore]]
"""Opens one more connection to the database of the test."""
OpenEngine = Callable[[], Awaitable[QueryEngine]]


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: PostgresServer) -> tuple[str, dict[str, list[Any]]]:
    """A database for all tests, and the rows its migrations left in it."""
    dsn = postgres_server.create_database()
    asyncio.run(migrate_postgres(dsn))
    return dsn, asyncio.run(_rows(dsn))


async def _rows(dsn: str) -> dict[str, list[Any]]:
    connection = await asyncpg.connect(dsn)
    try:
        return {name: await connection.fetch(f"SELECT * FROM {name}") for name in tables.metadata.tables}
    finally:
        await connection.close()


async def _make_new(dsn: str, seeds: dict[str, list[Any]]) -> None:
    """Emptying some twenty small tables is far quicker than truncating them or than a database per test."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("; ".join(f"DELETE FROM {name}" for name in tables.metadata.tables))
        for name, rows in seeds.items():
            if rows:
                await connection.copy_records_to_table(name, records=[tuple(row) for row in rows])
    finally:
        await connection.close()


@pytest.fixture
def open_engine(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> OpenEngine:
    path = tmp_path / "fleet.sqlite3"
    if backend == "postgres":
        dsn, seeds = request.getfixturevalue("migrated_postgres")
        asyncio.run(_make_new(dsn, seeds))
        return lambda: PostgresEngine.connect(dsn)
    shutil.copy(request.getfixturevalue("migrated_sqlite"), path)

    async def connect() -> QueryEngine:
        return SqliteEngine(path) if backend == "sqlite" else InlineEngine(path)

    return connect


@pytest.fixture
async def open_store(open_engine: OpenEngine) -> AsyncIterator[Open]:
    opened: list[SqlStore] = []

    async def connect() -> SqlStore:
        opened.append(SqlStore(await open_engine()))
        return opened[-1]

    yield connect
    for store in opened:
        await store.close()
