"""A SQLite database as a file: copied at one instant, counted, and its damage found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance import sqlite_files
from crawlfleet.errors import ConfigError, InvalidInput
from crawlfleet.store.engine.migrate import migrate_sqlite


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "crawl fleet%20.db"
    migrate_sqlite(path)
    sqlite_files.set_fact(path, "id", "abc")
    return path


async def test_a_copy_has_what_was_committed_when_it_began(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO installation VALUES ('open', 'x')")
        sizes: list[tuple[int, int]] = []
        await sqlite_files.copy_database(database, tmp_path / "copy", lambda *size: sizes.append(size))
        writer.execute("COMMIT")
    facts = sqlite_files.read_facts(tmp_path / "copy")
    assert (facts.installation, facts.tables["installation"], facts.tasks) == ("abc", 1, {})
    assert sqlite_files.find_damage(tmp_path / "copy") == []
    assert sqlite_files.read_facts(database).tables["installation"] == 2


def test_a_fact_is_set_and_replaced(database: Path) -> None:
    for value in ("1", "2"):
        sqlite_files.set_fact(database, "backup", value)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT value FROM installation WHERE key = 'backup'").fetchall() == [("2",)]


def test_damage_is_named(database: Path) -> None:
    sqlite_files.checkpoint(database)
    body = bytearray(database.read_bytes())
    body[8192:40960] = bytes(32768)
    database.write_bytes(body)
    assert sqlite_files.find_damage(database) != []
    with pytest.raises(InvalidInput, match="is damaged: "):
        sqlite_files.require_sound(database)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no database"):
        sqlite_files.read_facts(tmp_path / "none")
    (tmp_path / "text").write_text("hello, this is no database at all" * 100)
    with pytest.raises(ConfigError, match="is no database"):
        sqlite_files.read_facts(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "foreign")) as connection:
        connection.execute("CREATE TABLE dog (name)")
    with pytest.raises(ConfigError, match=r"is no database of crawlfleet \(no such table: installation\)"):
        sqlite_files.read_facts(tmp_path / "foreign")
    migrate_sqlite(tmp_path / "unused")
    with pytest.raises(ConfigError, match="was never used by a master"):
        sqlite_files.read_facts(tmp_path / "unused")
