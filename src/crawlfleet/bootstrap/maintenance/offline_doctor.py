"""The checks of an installation without a master: the store is opened as it is, and nothing is upgraded or locked."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path

import asyncpg

from crawlfleet.bootstrap.maintenance.installation_files import read_installation_files
from crawlfleet.bootstrap.maintenance.sole_access import sqlite_path
from crawlfleet.control.explain.doctor.doctor import Doctor
from crawlfleet.errors import ConfigError, StoreUnavailable, Unavailable
from crawlfleet.ports.clock import SystemClock
from crawlfleet.scheduling.doctor.check_list import run_checks
from crawlfleet.scheduling.doctor.findings import Check, Finding
from crawlfleet.scheduling.doctor.snapshot import Snapshot, Unchecked
from crawlfleet.settings.master import MasterSettings
from crawlfleet.store.engine.migrate import known_revisions
from crawlfleet.store.engine.postgres.address import normalise_address
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.version import __version__

CONNECT_S = 5.0
_HEADER = b"SQLite format 3\x00"


async def examine_installation(settings: MasterSettings, checks: Collection[Check]) -> list[Finding]:
    """Run the checks on a data folder and its store. Raises ConfigError where there is no installation."""
    try:
        async with asyncio.timeout(CONNECT_S):
            engine = await _open_engine(settings.store)
    except (Unavailable, TimeoutError) as exc:
        reason = f"the store cannot be reached: {str(exc) or 'no answer in time'}"
        return run_checks(await _files_alone(settings, reason), checks)
    store = SqlStore(engine)
    try:
        doctor = Doctor(
            store=store,
            clock=SystemClock(),
            read_files=functools.partial(read_installation_files, settings),
            version=__version__,
            revisions=tuple(known_revisions()),
            timeout_s=settings.task_timeout_s,
        )
        return await doctor.examine(checks)
    finally:
        await store.close()


async def _open_engine(address: str) -> QueryEngine:
    path = sqlite_path(address)
    try:
        if path is None:
            return await PostgresEngine.connect(normalise_address(address), connections=2)
        _check_file(path)
        return SqliteEngine(path)
    except (sqlite3.Error, asyncpg.PostgresError, OSError, ValueError) as exc:
        raise StoreUnavailable(str(exc)) from exc


def _check_file(path: Path) -> None:
    """Raise ConfigError for a file that is no database of SQLite: opening it would make one."""
    try:
        with path.open("rb") as file:
            header = file.read(len(_HEADER))
    except FileNotFoundError:
        raise ConfigError(f"store: there is no installation: {path} does not exist") from None
    except OSError as exc:
        raise ConfigError(f"store: {path} cannot be read: {exc.strerror}") from exc
    if header != _HEADER:
        raise ConfigError(f"store: {path} is no database of SQLite")


async def _files_alone(settings: MasterSettings, reason: str) -> Snapshot:
    """A snapshot of the files, for a store that cannot be reached."""
    missing = Unchecked(reason)
    files = await asyncio.to_thread(read_installation_files, settings)
    parts = {field.name: missing for field in fields(Snapshot)}
    return Snapshot(**{**parts, "now": SystemClock().now(), "version": __version__, "files": files})  # type: ignore[arg-type]
