"""The table of pulls: the baseline makes it as it is described, with the index of those that are open."""

import sqlite3
from contextlib import closing
from pathlib import Path

from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.migrations.pull_tables import PULL_TABLES


def test_the_table_of_pulls_is_made_as_it_is_described(tmp_path: Path) -> None:
    path = tmp_path / "fleet.sqlite3"
    migrate_sqlite(path)
    with closing(sqlite3.connect(path)) as connection:
        for name in PULL_TABLES:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            assert columns == list(schema.metadata.tables[name].columns.keys())
        (index,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'ix_pull_open'").fetchone()
    assert index.endswith("WHERE want > 0")
