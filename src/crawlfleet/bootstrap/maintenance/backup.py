"""Makes a backup of an installation while its masters work: first the database as it is at one instant, then the
results. What the database refers to was written before it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from crawlfleet.bootstrap.maintenance import postgres_programs, sqlite_files
from crawlfleet.bootstrap.maintenance.archive import (
    FORMAT,
    POSTGRES_MEMBER,
    RESULTS_FOLDER,
    SQLITE_MEMBER,
    TOKEN_MEMBER,
    ArchiveWriter,
    BackupManifest,
)
from crawlfleet.bootstrap.maintenance.database_facts import DatabaseFacts
from crawlfleet.bootstrap.maintenance.sole_access import sqlite_path
from crawlfleet.bootstrap.maintenance.threads import StopFlag, run_in_thread
from crawlfleet.bootstrap.results import open_place
from crawlfleet.bootstrap.serve import ADMIN_TOKEN
from crawlfleet.errors import ConfigError, Conflict, StoreUnavailable, Unavailable
from crawlfleet.model.instants import Instant
from crawlfleet.ports.admin_store import BACKUP_FACT
from crawlfleet.ports.chunk_store import MARK, ResultsPlace
from crawlfleet.ports.clock import SystemClock
from crawlfleet.settings.master import MasterSettings
from crawlfleet.version import __version__

_ZSTD_LEVEL = 3
_BLOCK = 1 << 20

OnProgress = Callable[[str, int, int | None], None]
"""Receives the name of a part, its finished bytes, and all its bytes where they are known."""


class FinishedBackup(NamedTuple):
    file: Path
    size_bytes: int
    manifest: BackupManifest
    is_recorded: bool
    """Whether the store has the time of this backup; an unavailable store may miss it."""


def backup_path(given: Path | None, now: Instant) -> Path:
    """Return the file of a backup: as given, or named by its time in the given folder."""
    folder = Path() if given is None else given
    if not folder.is_dir():
        return folder
    moment = datetime.fromtimestamp(now / 1000, UTC)
    return folder / f"crawlfleet-{moment:%Y%m%dT%H%M%SZ}.backup.tar"


async def make_backup(settings: MasterSettings, file: Path, on_progress: OnProgress) -> FinishedBackup:
    """Write a backup to a new file. A backup that does not come to its end leaves nothing."""
    if file.exists():
        raise Conflict(f"{file} is there already: name another file")
    if not file.parent.is_dir():
        raise ConfigError(f"the folder {file.parent} does not exist")
    with _written_to(file):
        async with _opened_archive(file) as writer:
            made_at = SystemClock().now()
            facts = await _add_database(settings.store, writer, file.parent, on_progress)
            token = settings.data_dir / ADMIN_TOKEN
            if token.is_file():
                writer.add_bytes(TOKEN_MEMBER, token.read_bytes())
            count, size_bytes = await _add_results(open_place(settings.results), writer, on_progress)

            def complete_manifest(files_sha256: str) -> BackupManifest:
                return BackupManifest(
                    format=FORMAT,
                    made_at=made_at,
                    version=__version__,
                    installation=facts.installation,
                    store="sqlite" if sqlite_path(settings.store) is not None else "postgresql",
                    store_version=facts.store_version,
                    revision=facts.revision,
                    tables=facts.tables,
                    tasks=facts.tasks,
                    result_files=count,
                    result_bytes=size_bytes,
                    files_sha256=files_sha256,
                )

            manifest = await run_in_thread(lambda: writer.finish(complete_manifest))
    archive_bytes = file.stat().st_size
    is_recorded = await record_backup(settings.store, made_at, file.absolute(), archive_bytes)
    return FinishedBackup(file, archive_bytes, manifest, is_recorded)


async def record_backup(store: str, made_at: Instant, file: Path, size_bytes: int) -> bool:
    """Record the newest backup in the store, where the checks of an installation find it. Returns whether that was
    possible: the backup is whole without it."""
    value = msgspec.json.encode({"made_at": made_at, "file": str(file), "bytes": size_bytes}).decode()
    path = sqlite_path(store)
    try:
        if path is None:
            await postgres_programs.set_fact(store, BACKUP_FACT, value)
        else:
            await run_in_thread(lambda: sqlite_files.set_fact(path, BACKUP_FACT, value))
    except StoreUnavailable:
        return False
    return True


async def _add_database(store: str, writer: ArchiveWriter, folder: Path, on_progress: OnProgress) -> DatabaseFacts:
    path = sqlite_path(store)
    with tempfile.TemporaryDirectory(prefix=".crawlfleet-backup-", dir=folder) as made:
        copy, packed = Path(made, "copy"), Path(made, "packed")
        if path is None:
            facts = await postgres_programs.dump_database(
                store, packed, lambda size: on_progress("database", size, None)
            )
            await run_in_thread(lambda: writer.add_file(POSTGRES_MEMBER, packed))
            return facts
        await sqlite_files.copy_database(path, copy, lambda size, total: on_progress("database", size, total))
        on_progress("database", copy.stat().st_size, copy.stat().st_size)
        await run_in_thread(lambda: sqlite_files.require_sound(copy))
        facts = await run_in_thread(lambda: sqlite_files.read_facts(copy))
        stop = StopFlag()
        await run_in_thread(lambda: _compress_file(copy, packed, stop), stop.set)
        await run_in_thread(lambda: writer.add_file(SQLITE_MEMBER, packed))
        return facts


async def _add_results(place: ResultsPlace, writer: ArchiveWriter, on_progress: OnProgress) -> tuple[int, int]:
    """Add the mark and all files of the results, and return the number of these files and of their bytes."""
    count = size_bytes = 0
    mark = await place.mark()
    if mark is None:
        return 0, 0
    writer.add_bytes(f"{RESULTS_FOLDER}{MARK}", f"{mark}\n".encode())
    async for page in place.list_files():
        for file in page:
            # Retention may remove files meanwhile, with the rows that refer to them.
            if (body := await place.read_file(file.name)) is None:
                continue
            writer.add_bytes(f"{RESULTS_FOLDER}{file.name}", body)
            count, size_bytes = count + 1, size_bytes + len(body)
            on_progress("results", size_bytes, None)
    return count, size_bytes


def _compress_file(source: Path, target: Path, stop: StopFlag) -> None:
    compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    with source.open("rb") as content, target.open("wb") as packed, compressor.stream_writer(packed) as out:
        while block := content.read(_BLOCK):
            stop.check()
            out.write(block)


@asynccontextmanager
async def _opened_archive(file: Path) -> AsyncIterator[ArchiveWriter]:
    writer = ArchiveWriter(file)
    try:
        yield writer
    finally:
        writer.discard()


@contextmanager
def _written_to(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"the backup {file} cannot be written: {exc.strerror or exc}") from exc
