"""Backends of the store's contract. The suites are plain modules: their asserts are to explain themselves too.

Durability is tested elsewhere (see `tests/integration`); here nothing waits for a disk, so that the whole suite stays
quick enough to be run at every change.
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_postgres, migrate_sqlite
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import InlineEngine, SqliteEngine
from testkit.servers import PostgresServer
from tests.paths import module_name

for suite in Path(__file__).parent.rglob("suite_*.py"):
    pytest.register_assert_rewrite(module_name(suite))

Engines = tuple[QueryEngine, QueryEngine]
"""Two ways to one database."""


class EmptiedPostgres:
    """One database for all tests, emptied before each: far quicker than a database, or a truncation, per test."""

    def __init__(self, dsn: str, seeds: dict[str, list[Any]], engines: Engines) -> None:
        self.engines = engines
        self._dsn = dsn
        self._seeds = seeds

    async def open(self) -> Engines:
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute("; ".join(f"DELETE FROM {name}" for name in schema.metadata.tables))
            for name, rows in self._seeds.items():
                if rows:
                    await connection.copy_records_to_table(name, records=rows)
        finally:
            await connection.close()
        return self.engines

    async def close(self) -> None:
        """It is used again."""


class CopiedSqlite:
    def __init__(self, path: Path, backend: str) -> None:
        self._path = path
        self._backend = backend
        self._opened: list[QueryEngine] = []

    async def open(self) -> Engines:
        return self._one(), self._one()

    def _one(self) -> QueryEngine:
        is_threaded = self._backend == "sqlite"
        self._opened.append(SqliteEngine(self._path, synchronous="OFF") if is_threaded else InlineEngine(self._path))
        return self._opened[-1]

    async def close(self) -> None:
        for engine in self._opened:
            await engine.close()


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def emptied_postgres(postgres_server: PostgresServer) -> AsyncIterator[EmptiedPostgres]:
    dsn = postgres_server.create_database()
    await migrate_postgres(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"ALTER DATABASE {urlsplit(dsn).path[1:]} SET synchronous_commit = off")
    # What the migrations themselves put into the tables.
    seeds = {
        name: [tuple(row) for row in await connection.fetch(f"SELECT * FROM {name}")] for name in schema.metadata.tables
    }
    await connection.close()
    engines = (await PostgresEngine.connect(dsn), await PostgresEngine.connect(dsn))
    yield EmptiedPostgres(dsn, seeds, engines)
    for engine in engines:
        await engine.close()


@pytest.fixture
def database(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> EmptiedPostgres | CopiedSqlite:
    """Only what the backend of the test needs is started."""
    if backend == "postgres":
        postgres: EmptiedPostgres = request.getfixturevalue("emptied_postgres")
        return postgres
    path = tmp_path / "fleet.sqlite3"
    shutil.copy(request.getfixturevalue("migrated_sqlite"), path)
    return CopiedSqlite(path, backend)


@pytest_asyncio.fixture(loop_scope="session")
async def engines(database: EmptiedPostgres | CopiedSqlite) -> AsyncIterator[Engines]:
    yield await database.open()
    await database.close()
