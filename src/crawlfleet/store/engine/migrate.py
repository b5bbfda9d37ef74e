"""Migrations: bring the tables of a database up to date. If several masters start at once, one migrates, the others
wait.

All migrations run in one transaction, on both databases: a start that is interrupted changes nothing.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from crawlfleet.errors import ConfigError, StoreUnavailable

_MIGRATIONS = Path(__file__).parent / "migrations"
_ADVISORY_LOCK = 0x63726177
_CONNECT_S = 5.0
_MISTAKES = ("28", "3D", "42")
"""Classes of SQL errors that waiting does not mend: a missing right, a missing database, a missing object."""


_HALF_MADE = ("already exists", "duplicate column name")
"""Error messages with which SQLite refuses what an interrupted migration of version 0.1.0 and before had made and not
undone."""


def migrate_sqlite(path: Path, *, later_versions: Path | None = None) -> None:
    """Migrate the file to the newest tables; `later_versions` is a folder of revisions after those of this program."""
    engine = _create_sqlite_engine(path)
    try:
        with engine.begin() as connection:
            _upgrade_tables(connection, later_versions)
    except DBAPIError as exc:
        if any(words in str(exc.orig) for words in _HALF_MADE):
            raise ConfigError(
                f"store: the tables in {path} are half made ({exc.orig}): an earlier start was interrupted. "
                "Put a backup in its place, or remove the file if the installation was new"
            ) from exc
        raise StoreUnavailable(f"SQLite at {path}: {exc.orig}") from exc
    finally:
        engine.dispose()


def _create_sqlite_engine(path: Path) -> Engine:
    """Create an engine whose transactions include DDL: Python's driver by itself begins no transaction for it."""
    # Not as text: a percent sign in the path would be decoded.
    engine = create_engine(URL.create("sqlite", database=str(path)))

    @event.listens_for(engine, "connect")
    def prepare_connection(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


async def migrate_postgres(dsn: str) -> None:
    # asyncpg parses the address, here as everywhere: SQLAlchemy would interpret its query part differently.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn, timeout=_CONNECT_S)
    )
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
            await connection.run_sync(_upgrade_tables)
    except DBAPIError as exc:
        if str(getattr(exc.orig, "sqlstate", "")).startswith(_MISTAKES):
            raise ConfigError(f"store: its tables cannot be made: {exc.orig}") from exc
        raise StoreUnavailable(f"PostgreSQL: {exc.orig}") from exc
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as exc:
        # Of the connection itself: SQLAlchemy does not wrap them.
        raise StoreUnavailable(f"PostgreSQL: {str(exc) or 'no answer in time'}") from exc
    finally:
        await engine.dispose()


def alembic_config(connection: Connection, later_versions: Path | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    if later_versions is not None:
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", f"{_MIGRATIONS / 'versions'}\n{later_versions}")
    config.attributes["connection"] = connection
    return config


def known_revisions() -> list[str]:
    """Return the revisions of the tables that this program knows, the newest first."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]


def _upgrade_tables(connection: Connection, later_versions: Path | None = None) -> None:
    config = alembic_config(connection, later_versions)
    scripts = ScriptDirectory.from_config(config)
    known_revisions = {script.revision for script in scripts.walk_revisions()}
    current_revisions = MigrationContext.configure(connection).get_current_heads()
    if strange := [revision for revision in current_revisions if revision not in known_revisions]:
        newest = scripts.get_current_head()
        raise ConfigError(
            f"store: its tables are of a newer version ({strange[0]}) than this program knows ({newest}): "
            "start the program that made them, or a newer one"
        )
    command.upgrade(config, "head")
