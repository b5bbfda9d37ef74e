"""Migrations: a fresh database has just the tables that are described, however often and by how many it is migrated."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.ext.asyncio import create_async_engine

from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import alembic_config, migrate_postgres, migrate_sqlite
from testkit.servers.server import free_port

pytestmark = pytest.mark.integration

AT_ONCE = 4


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    return list(compare_metadata(context, schema.metadata))


def table_names(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def undone(connection: Connection) -> set[str]:
    """The tables that are left when every migration was taken back."""
    command.downgrade(alembic_config(connection), "base")
    return table_names(connection) - {"alembic_version"}


async def on_postgres(dsn: str, ask: Any) -> Any:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as connection:
        answer = await connection.run_sync(ask)
    await engine.dispose()
    return answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fleet.sqlite3"


def test_tables_of_a_newer_program_are_left_alone_and_told_of(path: Path) -> None:
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ConfigError, match=r"store: its tables are of a newer version \(9999\) than this program"):
        migrate_sqlite(path)


def test_a_fresh_sqlite_file_is_as_described(path: Path) -> None:
    migrate_sqlite(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        assert differences(connection) == []
        assert table_names(connection) == {*schema.metadata.tables, "alembic_version"}
    engine.dispose()


def test_migrating_sqlite_again_changes_nothing(path: Path) -> None:
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        before = list(connection.iterdump())
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        assert list(connection.iterdump()) == before


def test_a_migrated_sqlite_file_uses_a_write_ahead_log(path: Path) -> None:
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_rowids_are_the_keys_of_the_hot_tables_on_sqlite(path: Path) -> None:
    """A key of any other type would be an index beside the table, and double the writes."""
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        for table in ("task", "live", "done", "execution", "outbox", "event_log", "figure_delta", "lease"):
            (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
            assert " INTEGER NOT NULL" in sql, table
            assert not connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = ?", [f"sqlite_autoindex_{table}_1"]
            ).fetchone()


def test_sqlite_migrations_can_be_taken_back(path: Path) -> None:
    migrate_sqlite(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        assert undone(connection) == set()
    engine.dispose()
    migrate_sqlite(path)


LANE_WITHOUT_MARK = (
    "INSERT INTO lane (id, queue, project, priority, requirement_id, task_type, requirement) "
    "VALUES (5, 'default', '', 5, 6, 'echo', '{}')"
)


def test_a_lane_of_a_sqlite_file_counts_as_used_until_it_is_marked(path: Path) -> None:
    migrate_sqlite(path)
    with sqlite3.connect(path) as database:
        database.execute(LANE_WITHOUT_MARK)
        assert database.execute("SELECT id, unused_mark FROM lane").fetchall() == [(5, 0)]


@pytest.mark.postgres
async def test_a_lane_of_a_postgres_database_counts_as_used_until_it_is_marked(postgres_dsn: str) -> None:
    await migrate_postgres(postgres_dsn)
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(LANE_WITHOUT_MARK)
    assert [tuple(row) for row in await connection.fetch("SELECT id, unused_mark FROM lane")] == [(5, 0)]
    await connection.close()


def test_a_folder_that_is_not_there_is_said_to_be_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no-such-folder"):
        migrate_sqlite(tmp_path / "no-such-folder" / "fleet.sqlite3")


@pytest.mark.postgres
async def test_a_fresh_postgres_database_is_as_described(postgres_dsn: str) -> None:
    await migrate_postgres(postgres_dsn)
    assert await on_postgres(postgres_dsn, differences) == []
    assert await on_postgres(postgres_dsn, table_names) == {*schema.metadata.tables, "alembic_version"}


@pytest.mark.postgres
async def test_many_that_migrate_postgres_at_once_are_all_well(postgres_dsn: str) -> None:
    await asyncio.gather(*(migrate_postgres(postgres_dsn) for _ in range(AT_ONCE)))
    assert await on_postgres(postgres_dsn, differences) == []
    connection = await asyncpg.connect(postgres_dsn)
    assert await connection.fetchval("SELECT COUNT(*) FROM leader") == 1
    assert await connection.fetchval("SELECT COUNT(*) FROM cluster") == 1
    await connection.close()


@pytest.mark.postgres
async def test_migrating_postgres_again_changes_nothing(postgres_dsn: str) -> None:
    await migrate_postgres(postgres_dsn)
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute("INSERT INTO queue (name, is_paused, changed_at) VALUES ('night', 1, 0)")
    await migrate_postgres(postgres_dsn)
    assert await connection.fetchval("SELECT COUNT(*) FROM queue") == 1
    assert await connection.fetchval("SELECT COUNT(*) FROM leader") == 1
    await connection.close()


@pytest.mark.postgres
async def test_postgres_migrations_can_be_taken_back(postgres_dsn: str) -> None:
    await migrate_postgres(postgres_dsn)
    assert await on_postgres(postgres_dsn, undone) == set()
    await migrate_postgres(postgres_dsn)


@pytest.mark.postgres
async def test_the_tables_that_churn_are_cleaned_early(postgres_dsn: str) -> None:
    await migrate_postgres(postgres_dsn)
    connection = await asyncpg.connect(postgres_dsn)
    rows = await connection.fetch("SELECT relname FROM pg_class WHERE 'fillfactor=70' = ANY(reloptions)")
    await connection.close()
    assert {row[0] for row in rows} >= {"live", "lease", "outbox", "figure_delta"}


async def test_a_postgres_that_is_not_there_is_said_to_be_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        await migrate_postgres(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres")
