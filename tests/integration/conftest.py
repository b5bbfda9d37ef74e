"""Fixtures of the fault tests: an empty store of each backend, and a fleet over it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.store import SqlStore
from testkit.servers import PostgresServer
from tests.integration.faults.faults_kit import Fleet
from tests.integration.faults.faults_stores import PostgresTemplate, Stores, sqlite_stores


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "fleet.sqlite3"
    migrate_sqlite(path)
    return path


@pytest.fixture(scope="module")
def empty_postgres(postgres_server: PostgresServer) -> PostgresTemplate:
    return PostgresTemplate(postgres_server.create_database())


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def unopened_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    if request.param == "postgres":
        # Asked for here, so that the server starts only when somebody needs it.
        template: PostgresTemplate = request.getfixturevalue("empty_postgres")
        return Stores(lambda: PostgresEngine.connect(template.dsn), template.empty, is_emptied_in_place=True)
    return sqlite_stores(tmp_path, request.getfixturevalue("empty_sqlite"))


@pytest.fixture
async def stores(unopened_stores: Stores) -> AsyncIterator[Stores]:
    yield unopened_stores
    await unopened_stores.close()


@pytest.fixture
async def store(stores: Stores) -> SqlStore:
    return await stores.fresh()


@pytest.fixture
async def fleet(store: SqlStore) -> Fleet:
    return await Fleet(store).begun()
