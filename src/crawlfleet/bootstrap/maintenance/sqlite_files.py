"""A SQLite database as a file: copied while a master works with it, checked, counted, and put in place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from crawlfleet.bootstrap.maintenance.database_facts import (
    INSTALLATION,
    REVISION,
    SET_FACT,
    TASKS,
    DatabaseFacts,
    tasks_by_word,
)
from crawlfleet.bootstrap.maintenance.threads import run_in_thread
from crawlfleet.errors import ConfigError, InvalidInput, StoreUnavailable

BUSY_S = 30.0
"""Time in seconds that a write waits for those of a running master."""
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""


async def copy_database(source: Path, target: Path, on_size: Callable[[int, int], None]) -> None:
    """Copy the database as it is at one instant. Writes of a master neither stop the copy nor begin it again."""
    with open_file(source) as connection:
        with _translated_errors(source):
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            total = pages * connection.execute("PRAGMA page_size").fetchone()[0]

        def report_size() -> int:
            on_size(target.stat().st_size if target.exists() else 0, total)
            return 0

        connection.set_progress_handler(report_size, 1_000_000)

        def vacuum() -> None:
            with _translated_errors(source):
                connection.execute("VACUUM INTO ?", (str(target),))

        await run_in_thread(vacuum, connection.interrupt)


def read_facts(path: Path) -> DatabaseFacts:
    """Count the rows of the database. Raises ConfigError for a file that is no database of crawlfleet."""
    with open_file(path) as connection, _translated_errors(path):
        connection.execute("BEGIN")
        try:
            installation = connection.execute(INSTALLATION).fetchone()
            revision = connection.execute(REVISION).fetchone()
        except sqlite3.OperationalError as exc:
            raise ConfigError(f"store: {path} is no database of crawlfleet ({exc})") from exc
        if installation is None or revision is None:
            raise ConfigError(f"store: {path} was never used by a master")
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            if not name.startswith("sqlite_")
        ]
        tables = {name: connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in names}
        tasks = tasks_by_word(connection.execute(TASKS).fetchall())
        return DatabaseFacts(installation[0], revision[0], sqlite3.sqlite_version, tables, tasks)


def find_damage(path: Path) -> list[str]:
    """Return what SQLite's own check finds wrong with the file; nothing for a sound one."""
    with open_file(path) as connection:
        try:
            lines = [str(line) for (line,) in connection.execute("PRAGMA quick_check(20)")]
        except sqlite3.DatabaseError as exc:
            return [str(exc)]
    return [line for line in lines if line != "ok"]


def require_sound(path: Path) -> None:
    """Raise InvalidInput for a damaged database."""
    if damage := find_damage(path):
        raise InvalidInput(f"{path} is damaged: {damage[0]}")


def set_fact(path: Path, key: str, value: str) -> None:
    with open_file(path) as connection, _translated_errors(path):
        connection.execute(SET_FACT.format(key="?", value="?"), (key, value))


def checkpoint(path: Path) -> None:
    """Move the commits of the write-ahead log into the file; a damaged file stays as it is."""
    with open_file(path) as connection, suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def open_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database file that exists. Raises ConfigError where there is none."""
    if not path.is_file():
        raise ConfigError(f"store: there is no database {path}")
    address = f"file:{quote(str(path.absolute()))}?mode=rw"
    try:
        connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_S, check_same_thread=False)
    except sqlite3.Error as exc:
        raise ConfigError(f"store: {path} cannot be opened: {exc}") from exc
    with closing(connection):
        yield connection


@contextmanager
def _translated_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as exc:
        if "not a database" in str(exc):
            raise ConfigError(f"store: {path} is no database: {exc}") from exc
        raise StoreUnavailable(f"SQLite at {path}: {exc}") from exc
