"""Opens a store by its address: locked where it must be, migrated and ready for use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import structlog

from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.settings.private_files import open_private, restrict_to_owner
from crawlfleet.store.engine.migrate import migrate_postgres, migrate_sqlite
from crawlfleet.store.engine.postgres.address import POSTGRES_SCHEMES, normalise_address
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.postgres.lock import DatabaseLock
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.engine.sqlite.lock import FileLock
from crawlfleet.store.store import SqlStore

log = structlog.get_logger()
T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_SQLITE = "sqlite:///"


class OpenedStore(SqlStore):
    """A store that releases at its closing what it acquired at its opening."""

    def __init__(self, engine: QueryEngine, release: Callable[[], None]) -> None:
        super().__init__(engine)
        self._release = release

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            self._release()


async def open_store(address: str, *, is_only_master: bool = False) -> SqlStore:
    """Open the store at `sqlite:///path/to/file` or `postgresql://...`. Raises ConfigError for another address, and
    StoreUnavailable for a store that cannot be reached. With `is_only_master` the opening is refused while another
    master has the store open, and the other way round; for SQLite that is always so."""
    if address.startswith(_SQLITE):
        return await _open_sqlite(Path(address.removeprefix(_SQLITE)))
    if address.startswith(POSTGRES_SCHEMES):
        return await _open_postgres(address, is_only_master)
    raise ConfigError(f"store: {address!r} is neither sqlite:///FILE nor postgresql://...")


async def retry_until_available(address: str, begin: Callable[[], Awaitable[T]]) -> T:
    """Call `begin` until the store at this address is available, and return its result. A PostgreSQL server that cannot
    be reached is waited for: it may be starting at the same time, or become unavailable again before everything is
    ready."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await begin()
        except Unavailable as exc:
            if not address.startswith(POSTGRES_SCHEMES):
                raise
            log.warning("store_away", error=str(exc), again_in_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _open_postgres(address: str, is_only_master: bool) -> SqlStore:
    address = normalise_address(address)
    lock = DatabaseLock(address, is_shared=not is_only_master)
    await lock.acquire()
    try:
        await migrate_postgres(address)
        return OpenedStore(await PostgresEngine.connect(address, on_switchover=lock.renew), lock.release)
    except BaseException:
        lock.release()
        raise


async def _open_sqlite(path: Path) -> SqlStore:
    if not path.name:
        raise ConfigError("store: sqlite:/// needs the path of a file")
    if not path.parent.is_dir():
        raise ConfigError(f"store: the folder {path.parent} does not exist")
    lock = FileLock(path)
    lock.acquire()
    try:
        _make_private(path)
        await asyncio.to_thread(migrate_sqlite, path)
        return OpenedStore(SqliteEngine(path), lock.release)
    except BaseException:
        lock.release()
        raise


def _make_private(path: Path) -> None:
    """Make the database accessible to its owner alone before SQLite opens it; SQLite gives its log and index the same
    mode."""
    try:
        os.close(open_private(str(path), os.O_RDWR | os.O_CREAT))
        for suffix in ("", "-wal", "-shm", "-journal", ".lock"):
            restrict_to_owner(path.with_name(f"{path.name}{suffix}"))
    except OSError as exc:
        raise ConfigError(f"store: {path} cannot be written: {exc.strerror}") from exc
