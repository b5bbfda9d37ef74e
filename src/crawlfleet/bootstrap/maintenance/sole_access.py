"""Sole access to a store: while it is held no master can start on the store, and it is refused while one runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crawlfleet.errors import ConfigError, Conflict, StoreInUse
from crawlfleet.store.engine.postgres.address import POSTGRES_SCHEMES, normalise_address
from crawlfleet.store.engine.postgres.lock import DatabaseLock
from crawlfleet.store.engine.sqlite.lock import FileLock

SQLITE_SCHEME = "sqlite:///"


def sqlite_path(address: str) -> Path | None:
    """Return the file of a SQLite store; None for a store of PostgreSQL."""
    return Path(address.removeprefix(SQLITE_SCHEME)) if address.startswith(SQLITE_SCHEME) else None


@asynccontextmanager
async def sole_access(address: str) -> AsyncIterator[None]:
    """Hold the lock that masters take. Raises Conflict while a master runs."""
    lock: FileLock | DatabaseLock
    path = sqlite_path(address)
    if path is not None:
        lock = FileLock(path)
        try:
            lock.acquire()
        except StoreInUse as exc:
            raise Conflict(f"a master works with {path}: stop it first") from exc
    elif address.startswith(POSTGRES_SCHEMES):
        lock = DatabaseLock(normalise_address(address))
        try:
            await lock.acquire()
        except StoreInUse as exc:
            raise Conflict("a master works with this database: stop all of them first") from exc
    else:
        raise ConfigError(f"store: {address!r} is neither sqlite:///FILE nor postgresql://...")
    try:
        yield
    finally:
        lock.release()
