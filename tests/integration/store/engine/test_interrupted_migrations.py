"""An interrupted migration of SQLite leaves the database as it was before, and the next start carries it out."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, create_engine, event

from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.store.engine.migrate import alembic_config, migrate_sqlite

pytestmark = pytest.mark.integration

OLD_REVISION = "0001"
STATEMENTS_AT_LEAST = 100

LATER_VERSION = """
'''A later version of the tables, which only these tests know: an upgrade of many statements, on tables with rows'''

import sqlalchemy as sa
from alembic import op

revision = "later"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("queue", sa.Column("weight", sa.Integer(), server_default=sa.text("1"), nullable=False))
    op.execute("UPDATE queue SET weight = 5 WHERE is_paused = 1")
    op.create_index("ix_queue_weight", "queue", ["weight"])
    for number in range(25):
        op.create_table(
            f"later_{number}",
            sa.Column("id", sa.Integer(), primary_key=True),
            sa.Column("name", sa.Text(), nullable=False),
        )
        op.create_index(f"ix_later_{number}_name", f"later_{number}", ["name"])
    op.execute("INSERT INTO later_0 (id, name) SELECT 1, name FROM queue")
    op.drop_table("later_24")


def downgrade() -> None:
    raise NotImplementedError
"""

MIGRATE_ON_A_SMALL_DISK = """
import resource, signal, sys
from pathlib import Path
from crawlfleet.errors import StoreUnavailable
from crawlfleet.store.engine.migrate import migrate_sqlite
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
most = int(sys.argv[2])
later = Path(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    migrate_sqlite(Path(sys.argv[1]), later_versions=later)
except StoreUnavailable:
    sys.exit(75)
"""


def dump_database(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def create_old_database(path: Path) -> None:
    """Make the tables of an earlier version, with one row that must survive."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        command.upgrade(alembic_config(connection), OLD_REVISION)
    engine.dispose()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("INSERT INTO queue (name, is_paused, changed_at) VALUES ('night', 1, 0)")
        database.commit()


@contextmanager
def called_after_each_statement(call: Callable[[], None]) -> Iterator[None]:
    def after_execute(*_: Any) -> None:
        call()

    event.listen(Engine, "after_cursor_execute", after_execute)
    try:
        yield
    finally:
        event.remove(Engine, "after_cursor_execute", after_execute)


def copy_after_each_statement(path: Path, copies: Path, later: Path) -> list[Path]:
    """Migrate, and copy the database's files after every statement: what a killed process leaves on the disk."""
    taken: list[Path] = []

    def copy() -> None:
        folder = copies / f"{len(taken):04}"
        folder.mkdir(parents=True)
        for file in path.parent.glob(f"{path.name}*"):
            shutil.copy(file, folder)
        taken.append(folder / path.name)

    with called_after_each_statement(copy):
        migrate_sqlite(path, later_versions=later)
    return taken


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the version that is migrated to."""
    folder = tmp_path_factory.mktemp("versions")
    (folder / "later_version.py").write_text(LATER_VERSION)
    return folder


@pytest.fixture(params=["new", "old"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "fleet"
    folder.mkdir()
    path = folder / "fleet.sqlite3"
    if request.param == "old":
        create_old_database(path)
    return path


def test_a_migration_killed_after_any_statement_is_carried_out_by_the_next_start(
    path: Path, later: Path, tmp_path: Path
) -> None:
    is_new = not path.exists()
    copies = copy_after_each_statement(path, tmp_path / "copies", later)
    expected = dump_database(path)
    if is_new:
        assert len(copies) >= STATEMENTS_AT_LEAST
    for copy in copies:
        migrate_sqlite(copy, later_versions=later)
        assert dump_database(copy) == expected, copy.parent.name


def test_a_migration_that_fails_leaves_the_tables_as_they_were(path: Path, later: Path) -> None:
    if not path.exists():
        sqlite3.connect(path).close()
    before, executed = dump_database(path), 0

    def fail_in_the_middle() -> None:
        nonlocal executed
        executed += 1
        if executed == 20:
            raise sqlite3.OperationalError("disk I/O error")

    with called_after_each_statement(fail_in_the_middle), pytest.raises((StoreUnavailable, sqlite3.OperationalError)):
        migrate_sqlite(path, later_versions=later)
    assert dump_database(path) == before
    migrate_sqlite(path, later_versions=later)
    assert dump_database(path) != before


@pytest.mark.parametrize("most_bytes", [1 << 12, 1 << 15, 1 << 17])
def test_a_disk_that_is_full_in_the_middle_costs_nothing(path: Path, later: Path, most_bytes: int) -> None:
    migrate = [sys.executable, "-c", MIGRATE_ON_A_SMALL_DISK, str(path), str(most_bytes), str(later)]
    assert subprocess.run(migrate, check=False, timeout=60).returncode == 75
    migrate_sqlite(path, later_versions=later)
    migrated = dump_database(path)
    migrate_sqlite(path, later_versions=later)
    assert dump_database(path) == migrated


def test_tables_half_made_by_an_older_program_are_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "fleet.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE cluster (name TEXT)")
    with pytest.raises(ConfigError, match=r"^store: .*fleet\.sqlite3 .*half made.*(backup|remove)"):
        migrate_sqlite(path)
