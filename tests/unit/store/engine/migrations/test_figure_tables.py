"""The tables of figures: the baseline makes those that are described, with their columns."""

import sqlite3
from pathlib import Path

from crawlfleet.store import schema
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.migrations.figure_tables import FIGURE_TABLES
from crawlfleet.store.schema import figures


def test_every_table_of_figures_is_made_as_it_is_described(tmp_path: Path) -> None:
    described = {name for name in vars(figures) if getattr(schema.metadata.tables.get(name), "name", None) == name}
    assert described == set(FIGURE_TABLES)
    path = tmp_path / "fleet.sqlite3"
    migrate_sqlite(path)
    with sqlite3.connect(path) as connection:
        for name in FIGURE_TABLES:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            assert columns == list(schema.metadata.tables[name].columns.keys())
    connection.close()
