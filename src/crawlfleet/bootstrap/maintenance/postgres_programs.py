"""A PostgreSQL database by its own programs: dumped with pg_dump in one snapshot with its counts, restored with
pg_restore in one transaction."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from crawlfleet.bootstrap.maintenance.database_facts import (
    INSTALLATION,
    REVISION,
    SET_FACT,
    TASKS,
    VERSION_TABLE,
    DatabaseFacts,
    tasks_by_word,
)
from crawlfleet.errors import ConfigError, StoreUnavailable
from crawlfleet.store.engine.postgres.address import find_mistake, normalise_address

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

CONNECT_S = 10.0
POLL_S = 0.2
_STOP_S = 5.0
_SERVER_VERSION = "SHOW server_version"
_TABLES = (
    "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace "
    "ORDER BY c.relname"
)
_AWAY = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError, ValueError)


def find_program(name: str, server_version: str) -> str:
    """Return the path of a program of PostgreSQL. Raises ConfigError with what to install."""
    if (path := shutil.which(name)) is not None:
        return path
    major = server_version.partition(".")[0]
    raise ConfigError(
        f"{name} is not on the PATH: install the client programs of PostgreSQL {major} or newer (Debian: "
        f"postgresql-client-{major}; Fedora: postgresql; macOS: brew install libpq)"
    )


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Connection]:
    """Connect to the database. Raises ConfigError for a wrong address, StoreUnavailable for a server that is away."""
    try:
        connection = await asyncpg.connect(normalise_address(address), timeout=CONNECT_S)
    except _AWAY as exc:
        if (mistake := find_mistake(exc)) is not None:
            raise ConfigError(f"store: {mistake}") from exc
        raise StoreUnavailable(f"PostgreSQL: {str(exc) or 'no answer'}") from exc
    try:
        yield connection
    except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError) as exc:
        raise StoreUnavailable(f"PostgreSQL: {exc}") from exc
    finally:
        connection.terminate()


async def dump_database(address: str, target: Path, on_size: Callable[[int], None]) -> DatabaseFacts:
    """Dump the database, and count its rows in the same snapshot."""
    async with connected(address) as connection:
        program = find_program("pg_dump", await connection.fetchval(_SERVER_VERSION))
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            facts = await read_facts(connection)
            snapshot = await connection.fetchval("SELECT pg_export_snapshot()")
            options = ["--format=custom", "--no-owner", "--no-privileges", f"--snapshot={snapshot}"]

            def report_size() -> None:
                on_size(target.stat().st_size if target.exists() else 0)

            await _run_program(program, [*options, f"--file={target}"], address, report_size)
    return facts


async def restore_database(address: str, dump: Path, *, is_replacing: bool, on_poll: Callable[[], None]) -> None:
    """Restore a dump in one transaction. With `is_replacing` the tables that are there are dropped in it first."""
    async with connected(address) as connection:
        program = find_program("pg_restore", await connection.fetchval(_SERVER_VERSION))
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    if is_replacing:
        options += ["--clean", "--if-exists"]
    await _run_program(program, [*options, str(dump)], address, on_poll)


async def read_facts(connection: Connection) -> DatabaseFacts:
    """Count the rows of the database. Raises ConfigError for one that has no tables of crawlfleet."""
    try:
        # A savepoint: an error must not end the transaction around it.
        async with connection.transaction():
            installation = await connection.fetchval(INSTALLATION)
            revision = await connection.fetchval(REVISION)
    except asyncpg.UndefinedTableError as exc:
        raise ConfigError(f"store: the database has no tables of crawlfleet ({exc})") from exc
    if installation is None or revision is None:
        raise ConfigError("store: the database was never used by a master")
    version = str(await connection.fetchval(_SERVER_VERSION))
    names = [row[0] for row in await connection.fetch(_TABLES)]
    tables = {name: int(await connection.fetchval(f'SELECT COUNT(*) FROM "{name}"')) for name in names}
    tasks = tasks_by_word([(row[0], row[1]) for row in await connection.fetch(TASKS)])
    return DatabaseFacts(installation, revision, version, tables, tasks)


async def has_tables(connection: Connection) -> bool:
    """Return whether the database has the tables of an installation."""
    return await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", VERSION_TABLE) is True


async def set_fact(address: str, key: str, value: str) -> None:
    async with connected(address) as connection:
        await connection.execute(SET_FACT.format(key="$1", value="$2"), key, value)


async def _run_program(program: str, options: Sequence[str], address: str, on_poll: Callable[[], None]) -> None:
    """Run a program to its end. The password goes by its environment: a command line can be read by every user of the
    machine."""
    shown, password = _split_password(address)
    environment = os.environ if password is None else {**os.environ, "PGPASSWORD": password}
    child = await asyncio.create_subprocess_exec(
        program,
        f"--dbname={shown}",
        *options,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C in a terminal reaches the whole group; this process decides when its child ends.
        start_new_session=True,
    )
    ending = asyncio.create_task(child.communicate())
    try:
        while not ending.done():
            await asyncio.wait({ending}, timeout=POLL_S)
            on_poll()
    finally:
        if child.returncode is None:
            child.terminate()
            await asyncio.wait({ending}, timeout=_STOP_S)
            if child.returncode is None:
                child.kill()
            await ending
    if child.returncode != 0:
        words = " ".join(ending.result()[1].decode(errors="replace").split())
        raise ConfigError(f"{Path(program).name} failed: {words or f'exit code {child.returncode}'}")


def _split_password(address: str) -> tuple[str, str | None]:
    parts = urlsplit(address)
    user, has_password, password = parts.netloc.rpartition("@")[0].partition(":")
    if not has_password:
        return address, None
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}@{place}")), unquote(password)
