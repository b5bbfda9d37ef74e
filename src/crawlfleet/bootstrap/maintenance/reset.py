"""Removes an installation: its results, the identities of its local agents, its token, and last its database.

The database goes last: a reset that was interrupted finds the installation again and goes on.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from crawlfleet.bootstrap.maintenance import postgres_programs, sqlite_files
from crawlfleet.bootstrap.maintenance.database_facts import VERSION_TABLE, DatabaseFacts
from crawlfleet.bootstrap.maintenance.sole_access import sole_access, sqlite_path
from crawlfleet.bootstrap.maintenance.threads import run_in_thread
from crawlfleet.bootstrap.results import open_place
from crawlfleet.bootstrap.serve import ADDRESS, ADMIN_TOKEN
from crawlfleet.errors import Conflict, Unavailable
from crawlfleet.ports.chunk_store import ResultsPlace
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.results.chunk_names import parse_task
from crawlfleet.settings.master import MasterSettings
from crawlfleet.store.schema import metadata

NODES = "nodes"
"""Folder of the agents of a standalone installation."""
_DROPPED_AT_ONCE = 1_000


class Removed(NamedTuple):
    installation: str
    tasks: dict[str, int]
    """Tasks by status, as they were."""


def installation_name(settings: MasterSettings) -> str:
    """Return the name that a person types to confirm: of the database, or of the data folder where it lies in one."""
    path = sqlite_path(settings.store)
    if path is not None:
        return settings.data_dir.name
    return unquote(urlsplit(settings.store).path.lstrip("/")) or "postgres"


async def describe_installation(settings: MasterSettings) -> DatabaseFacts:
    """Return what a reset would remove. Raises ConfigError where there is no installation."""
    path = sqlite_path(settings.store)
    if path is not None:
        return await run_in_thread(lambda: sqlite_files.read_facts(path))
    async with postgres_programs.connected(settings.store) as connection:
        return await postgres_programs.read_facts(connection)


async def reset_installation(settings: MasterSettings) -> Removed:
    """Remove the installation. Raises Conflict while a master runs, and for results that belong to another one."""
    facts = await describe_installation(settings)
    path = sqlite_path(settings.store)
    try:
        async with sole_access(settings.store):
            await _remove_results(open_place(settings.results), settings.results, facts.installation)
            await run_in_thread(lambda: shutil.rmtree(settings.data_dir / NODES, ignore_errors=True))
            for name in (ADMIN_TOKEN, ADDRESS):
                (settings.data_dir / name).unlink(missing_ok=True)
            if path is not None:
                _remove_sqlite(path)
            else:
                await drop_tables(settings.store)
    except OSError as exc:
        raise Unavailable(f"the installation cannot be removed: {exc.strerror or exc} ({exc.filename})") from exc
    return Removed(facts.installation, facts.tasks)


async def _remove_results(place: ResultsPlace, address: str, installation: str) -> None:
    mark = await place.mark()
    if mark is None:
        return
    if mark.partition("-")[0] != installation:
        raise Conflict(
            f"results: {address} belongs to another installation ({mark.partition('-')[0]}): nothing removed"
        )
    tasks: set[int] = set()
    async for page in place.list_files():
        tasks |= {task for file in page if (task := parse_task(file.name)) is not None}
        if len(tasks) >= _DROPPED_AT_ONCE:
            await place.drop(sorted(tasks))
            tasks.clear()
    await place.drop(sorted(tasks))
    await place.remove_mark()
    if isinstance(place, FolderChunks):
        # The folder itself, unless it holds what is not ours.
        with suppress(OSError):
            Path(address).rmdir()


def _remove_sqlite(path: Path) -> None:
    # The log first: without its database it is nothing, and beside another one it would be taken for that one's.
    sqlite_files.checkpoint(path)
    for suffix in sqlite_files.SIDE_FILES:
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
    path.unlink()
    with suppress(OSError):
        path.with_name(f"{path.name}.lock").unlink(missing_ok=True)


async def drop_tables(address: str) -> None:
    """Drop the tables of crawlfleet in a PostgreSQL database, in one transaction."""
    names = ", ".join(f'"{name}"' for name in [*sorted(metadata.tables), VERSION_TABLE])
    async with postgres_programs.connected(address) as connection:
        await connection.execute(f"DROP TABLE IF EXISTS {names}")
