"""A real store in a folder of the test, for services that need nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit


@asynccontextmanager
async def sqlite_kit(folder: Path) -> AsyncIterator[Kit]:
    path = folder / "fleet.sqlite3"
    migrate_sqlite(path)
    store = SqlStore(SqliteEngine(path, synchronous="OFF"))
    try:
        yield await Kit.open(store, store)
    finally:
        await store.close()
