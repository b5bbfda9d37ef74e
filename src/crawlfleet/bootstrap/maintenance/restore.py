"""Restores a backup into a fresh place: all of it is verified and unpacked before anything of the installation changes.

The results are put in place before the database, and the database by one rename or in one transaction: an installation
whose database is there is whole. A restore that was interrupted is begun again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, NamedTuple, Protocol, cast

import zstandard

from crawlfleet.bootstrap.maintenance import postgres_programs, sqlite_files
from crawlfleet.bootstrap.maintenance.archive import (
    POSTGRES_MEMBER,
    RESULTS_FOLDER,
    SQLITE_MEMBER,
    TOKEN_MEMBER,
    BackupManifest,
    HashingReader,
    read_members,
    verify_archive,
)
from crawlfleet.bootstrap.maintenance.backup import OnProgress, record_backup
from crawlfleet.bootstrap.maintenance.database_facts import DatabaseFacts
from crawlfleet.bootstrap.maintenance.sole_access import sole_access, sqlite_path
from crawlfleet.bootstrap.maintenance.threads import StopFlag, run_in_thread
from crawlfleet.bootstrap.results import open_place
from crawlfleet.bootstrap.serve import ADMIN_TOKEN
from crawlfleet.errors import ConfigError, Conflict, InvalidInput, Unavailable
from crawlfleet.ports.chunk_store import MARK, ResultsPlace
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.results.chunk_names import parse_task
from crawlfleet.settings.master import MasterSettings
from crawlfleet.settings.private_files import make_private_folder, open_private, write_private
from crawlfleet.store.engine.migrate import known_revisions

_BLOCK = 1 << 20
_UNPACKED, _REPLACED = ".restore", ".replaced"


class RestoredBackup(NamedTuple):
    manifest: BackupManifest
    facts: DatabaseFacts
    """What the restored database counts."""


class Target(Protocol):
    """A database to restore into."""

    async def require_empty(self) -> None: ...

    async def unpack(self, content: HashingReader) -> None: ...

    async def check(self, manifest: BackupManifest) -> None: ...

    async def commit(self) -> DatabaseFacts: ...

    def discard(self) -> None: ...


async def verify_backup(file: Path, on_progress: OnProgress) -> BackupManifest:
    """Check every hash of a backup. Raises InvalidInput for a file that is not whole."""
    if not file.is_file():
        raise ConfigError(f"there is no file {file}")
    total, done, stop = file.stat().st_size, 0, StopFlag()

    def count_bytes(size: int) -> None:
        nonlocal done
        stop.check()
        done += size
        on_progress("check", done, total)

    return await run_in_thread(lambda: verify_archive(file, count_bytes), stop.set)


async def restore_backup(
    settings: MasterSettings, file: Path, on_progress: OnProgress, *, is_replacing: bool = False
) -> RestoredBackup:
    """Restore a backup into the store and the place of results of these settings.

    Raises InvalidInput for a file that is not whole, Conflict while a master runs and, unless `is_replacing`, for a
    target that holds something; then nothing has changed.
    """
    manifest = await verify_backup(file, on_progress)
    _check_fit(manifest, settings)
    try:
        make_private_folder(settings.data_dir)
        async with sole_access(settings.store), AsyncExitStack() as stack:
            target: Target = _open_target(settings, is_replacing)
            stack.callback(target.discard)
            place = open_place(settings.results)
            if not is_replacing:
                await target.require_empty()
                await _require_no_results(place, settings.results)
            results: _ResultsFolder | _ResultsBucket
            if isinstance(place, FolderChunks):
                results = await stack.enter_async_context(_unpacked_folder(Path(settings.results)))
            else:
                results = await stack.enter_async_context(_unpacked_bucket(place, is_replacing))
            token = await _unpack(file, manifest, target, results, on_progress)
            await target.check(manifest)
            await results.commit()
            facts = await target.commit()
            await results.keep()
            if token is not None:
                write_private(settings.data_dir / ADMIN_TOKEN, token)
    except OSError as exc:
        raise Unavailable(f"the backup cannot be restored: {exc.strerror or exc} ({exc.filename})") from exc
    await record_backup(settings.store, manifest.made_at, file.absolute(), file.stat().st_size)
    return RestoredBackup(manifest, facts)


def _check_fit(manifest: BackupManifest, settings: MasterSettings) -> None:
    """Raise ConfigError for a backup of the other kind of store, or of tables that this program does not know."""
    has_sqlite = sqlite_path(settings.store) is not None
    if has_sqlite != (manifest.store == "sqlite"):
        wanted = "sqlite:///FILE" if manifest.store == "sqlite" else "postgresql://..."
        raise ConfigError(f"store: the backup is of {manifest.store}, and the store is not: give --store {wanted}")
    if manifest.revision not in known_revisions():
        raise ConfigError(
            f"the tables of the backup are of a newer version ({manifest.revision}) than this program knows: install "
            f"crawlfleet {manifest.version}"
        )


def _open_target(settings: MasterSettings, is_replacing: bool) -> Target:
    path = sqlite_path(settings.store)
    if path is None:
        return _PostgresTarget(settings.store, settings.data_dir, is_replacing)
    return _SqliteTarget(path)


async def _require_no_results(place: ResultsPlace, address: str) -> None:
    if await place.mark() is not None:
        raise Conflict(f"results: {address} holds the results of an installation: --replace removes them")
    async for _ in place.list_files():
        raise Conflict(f"results: {address} holds results: --replace removes them")


async def _unpack(
    file: Path,
    manifest: BackupManifest,
    target: Target,
    results: _ResultsFolder | _ResultsBucket,
    on_progress: OnProgress,
) -> str | None:
    """Unpack every member beside its place, and return the admin token, where there is one."""
    token: str | None = None
    done_bytes = 0
    members = read_members(file)
    while (member := await run_in_thread(lambda: next(members, None))) is not None:
        name, content = member
        if name in (SQLITE_MEMBER, POSTGRES_MEMBER):
            await target.unpack(content)
        elif name == TOKEN_MEMBER:
            token = content.read().decode().strip()
        elif name.startswith(RESULTS_FOLDER):
            inner = name.removeprefix(RESULTS_FOLDER)
            if inner != MARK and parse_task(inner) is None:
                raise InvalidInput(f"{file} holds {name!r}, which is no file of results")
            body = content.read()
            done_bytes += len(body)
            await results.write(inner, body)
            on_progress("results", done_bytes, manifest.result_bytes)
    return token


class _SqliteTarget:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}{_UNPACKED}")

    async def require_empty(self) -> None:
        if self._path.exists():
            raise Conflict(f"store: {self._path} is there already: --replace removes it, or give another --data-dir")

    async def unpack(self, content: HashingReader) -> None:
        await run_in_thread(lambda: self._write_part(content))

    async def check(self, manifest: BackupManifest) -> None:
        facts = await run_in_thread(self._read_part)
        _compare_counts(manifest, facts)

    async def commit(self) -> DatabaseFacts:
        # The old write-ahead log must not be replayed into the new file.
        if self._path.exists():
            await run_in_thread(lambda: sqlite_files.checkpoint(self._path))
        for suffix in sqlite_files.SIDE_FILES:
            self._path.with_name(f"{self._path.name}{suffix}").unlink(missing_ok=True)
        self._part.replace(self._path)
        sync_folder(self._path.parent)
        return await run_in_thread(lambda: sqlite_files.read_facts(self._path))

    def discard(self) -> None:
        for suffix in ("", *sqlite_files.SIDE_FILES):
            self._part.with_name(f"{self._part.name}{suffix}").unlink(missing_ok=True)

    def _write_part(self, content: HashingReader) -> None:
        self.discard()
        with open(self._part, "xb", opener=open_private) as part:
            zstandard.ZstdDecompressor().copy_stream(cast("IO[bytes]", content), part, write_size=_BLOCK)
            part.flush()
            os.fsync(part.fileno())

    def _read_part(self) -> DatabaseFacts:
        sqlite_files.require_sound(self._part)
        return sqlite_files.read_facts(self._part)


class _PostgresTarget:
    def __init__(self, address: str, data_dir: Path, is_replacing: bool) -> None:
        self._address = address
        self._is_replacing = is_replacing
        self._part = data_dir / f"crawlfleet.dump{_UNPACKED}"
        self._manifest: BackupManifest | None = None

    async def require_empty(self) -> None:
        async with postgres_programs.connected(self._address) as connection:
            if await postgres_programs.has_tables(connection):
                raise Conflict(
                    "store: the database holds an installation: --replace removes it, or give another --store"
                )

    async def unpack(self, content: HashingReader) -> None:
        def write_part() -> None:
            self.discard()
            with open(self._part, "xb", opener=open_private) as part:
                shutil.copyfileobj(cast("IO[bytes]", content), part, _BLOCK)

        await run_in_thread(write_part)

    async def check(self, manifest: BackupManifest) -> None:
        self._manifest = manifest

    async def commit(self) -> DatabaseFacts:
        await postgres_programs.restore_database(
            self._address, self._part, is_replacing=self._is_replacing, on_poll=lambda: None
        )
        async with postgres_programs.connected(self._address) as connection:
            facts = await postgres_programs.read_facts(connection)
        assert self._manifest is not None
        _compare_counts(self._manifest, facts)
        return facts

    def discard(self) -> None:
        self._part.unlink(missing_ok=True)


class _ResultsFolder:
    """Results unpacked into a folder beside the right one, which it replaces at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f"{path.name}{_UNPACKED}")
        self._replaced = path.with_name(f"{path.name}{_REPLACED}")
        self._is_in_place = False

    async def write(self, name: str, body: bytes) -> None:
        await run_in_thread(lambda: self._write_part(name, body))

    async def commit(self) -> None:
        if self._replaced.exists():
            raise Conflict(f"results: {self._replaced} is left by an earlier restore: look at it, then remove it")
        # Once for all files, which are not synced one by one.
        await run_in_thread(os.sync)
        if self._path.exists():
            self._path.rename(self._replaced)
        if self._part.exists():
            self._part.rename(self._path)
        sync_folder(self._path.parent)
        self._is_in_place = True

    async def keep(self) -> None:
        """Remove what was replaced: the database refers to the new results."""
        self._is_in_place = False
        await run_in_thread(lambda: shutil.rmtree(self._replaced, ignore_errors=True))

    def discard(self) -> None:
        if self._is_in_place:
            self._path.rename(self._part)
            if self._replaced.exists():
                self._replaced.rename(self._path)
        shutil.rmtree(self._part, ignore_errors=True)

    def _write_part(self, name: str, body: bytes) -> None:
        file = self._part / name
        make_private_folder(file.parent)
        with open(file, "xb", opener=open_private) as part:
            part.write(body)


class _ResultsBucket:
    """Results written to a bucket under their names: those of an interrupted restore are removed again, unless they
    replace others of the same names."""

    def __init__(self, place: ResultsPlace, is_replacing: bool) -> None:
        self._place = place
        self._is_replacing = is_replacing
        self._tasks: set[int] = set()
        self._mark: str | None = None
        self._is_kept = False

    async def write(self, name: str, body: bytes) -> None:
        if name == MARK:
            self._mark = body.decode().strip()
            return
        task = parse_task(name)
        assert task is not None
        self._tasks.add(task)
        await self._place.write_file(name, body)

    async def commit(self) -> None:
        if self._mark is not None:
            await self._place.set_mark(self._mark, is_replacing=True)

    async def keep(self) -> None:
        self._is_kept = True
        if self._is_replacing:
            tasks = {parse_task(file.name) async for page in self._place.list_files() for file in page}
            await self._place.drop(sorted(task for task in tasks if task is not None and task not in self._tasks))

    async def discard(self) -> None:
        if not self._is_kept and not self._is_replacing:
            await self._place.drop(sorted(self._tasks))


@asynccontextmanager
async def _unpacked_folder(path: Path) -> AsyncIterator[_ResultsFolder]:
    make_private_folder(path.parent)
    results = _ResultsFolder(path)
    # Left by a restore that was killed.
    await run_in_thread(results.discard)
    try:
        yield results
    finally:
        results.discard()


@asynccontextmanager
async def _unpacked_bucket(place: ResultsPlace, is_replacing: bool) -> AsyncIterator[_ResultsBucket]:
    results = _ResultsBucket(place, is_replacing)
    try:
        yield results
    finally:
        await results.discard()


def _compare_counts(manifest: BackupManifest, facts: DatabaseFacts) -> None:
    """Raise InvalidInput for a database that does not count what the backup had counted."""
    for name, count in manifest.tables.items():
        if facts.tables.get(name) != count:
            raise InvalidInput(f"the table {name} has {facts.tables.get(name, 0)} rows, and the backup counted {count}")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
