"""Backup on each store, restored with identical counts and results."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from crawlfleet.bootstrap.maintenance.archive import ArchiveWriter
from crawlfleet.bootstrap.maintenance.backup import backup_path, make_backup
from crawlfleet.bootstrap.maintenance.restore import restore_backup, verify_backup
from crawlfleet.bootstrap.stores import open_store
from crawlfleet.errors import ConfigError, Conflict, Unavailable
from crawlfleet.ports.admin_store import BACKUP_FACT
from crawlfleet.settings.master import MasterSettings
from testkit.servers import S3Server
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, holds, names_below, serving, silent

pytestmark = pytest.mark.integration


async def test_a_backup_while_a_master_runs_is_restored_with_identical_counts_and_results(
    places: Places, tmp_path: Path
) -> None:
    first, second = places.settings("first"), places.settings("second")
    ids = await fill(first)
    file = tmp_path / "fleet.tar"
    async with serving(first):
        finished = await make_backup(first, file, silent)
    manifest = finished.manifest
    assert manifest.tasks == {"pending": 20}
    assert manifest.tables["task"] == manifest.tables["live"] == 20
    assert (manifest.result_files, manifest.store) == (20, "postgresql" if "postgres" in first.store else "sqlite")
    assert await verify_backup(file, silent) == manifest
    restored = await restore_backup(second, file, silent)
    assert restored.facts.tables == manifest.tables
    assert (second.data_dir / "admin.token").read_text() == (first.data_dir / "admin.token").read_text()
    assert not [name for name in names_below(second.data_dir) if "restore" in name or "replaced" in name]
    await holds(second, ids)


async def test_the_store_knows_its_newest_backup(places: Places, tmp_path: Path) -> None:
    settings = places.settings("first")
    await fill(settings, 1)
    assert (await make_backup(settings, tmp_path / "old.tar", silent)).is_recorded
    finished = await make_backup(settings, tmp_path / "new.tar", silent)
    store = await open_store(settings.store)
    try:
        fact = msgspec.json.decode(await store.find_fact(BACKUP_FACT) or "{}")
    finally:
        await store.close()
    assert fact == {
        "made_at": finished.manifest.made_at,
        "file": str(tmp_path / "new.tar"),
        "bytes": (tmp_path / "new.tar").stat().st_size,
    }


async def test_an_interrupted_backup_leaves_nothing(places: Places, tmp_path: Path) -> None:
    settings = places.settings("first")
    await fill(settings)
    folder = tmp_path / "backups"
    folder.mkdir()

    def interrupt(part: str, _done: int, _total: int | None) -> None:
        if part == "results":
            task.cancel()

    task = asyncio.ensure_future(make_backup(settings, folder / "fleet.tar", interrupt))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names_below(folder) == set()


async def test_a_full_disk_is_told_and_leaves_nothing(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = places.settings("first")
    await fill(settings)
    folder = tmp_path / "backups"
    folder.mkdir()

    def no_space(*_given: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(ArchiveWriter, "add_file", no_space)
    with pytest.raises(Unavailable, match=r"fleet\.tar cannot be written: No space left on device"):
        await make_backup(settings, folder / "fleet.tar", silent)
    assert names_below(folder) == set()


async def test_a_backup_goes_to_a_new_file_only(places: Places, tmp_path: Path) -> None:
    settings = places.settings("first")
    await fill(settings, 1)
    (tmp_path / "fleet.tar").write_text("mine")
    with pytest.raises(Conflict, match="is there already"):
        await make_backup(settings, tmp_path / "fleet.tar", silent)
    assert (tmp_path / "fleet.tar").read_text() == "mine"
    with pytest.raises(ConfigError, match=r"folder .* does not exist"):
        await make_backup(settings, tmp_path / "no" / "fleet.tar", silent)
    assert backup_path(tmp_path, 0) == tmp_path / "crawlfleet-19700101T000000Z.backup.tar"


async def test_a_place_without_an_installation_is_told(places: Places, tmp_path: Path) -> None:
    settings = places.settings("nothing")
    settings.data_dir.mkdir()
    with pytest.raises(ConfigError, match=r"there is no database|has no tables of crawlfleet"):
        await make_backup(settings, tmp_path / "fleet.tar", silent)
    assert not (tmp_path / "fleet.tar").exists()


async def test_a_foreign_file_is_no_database_of_crawlfleet(tmp_path: Path) -> None:
    for text in ("hello", ""):
        (tmp_path / "crawlfleet.db").write_text(text)
        with pytest.raises(ConfigError, match="no database"):
            await make_backup(MasterSettings(data_dir=tmp_path), tmp_path / "fleet.tar", silent)


@pytest.mark.postgres
async def test_without_pg_dump_it_is_said_what_to_install(
    postgres_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = MasterSettings(data_dir=tmp_path / "first", port=0, store=postgres_dsn)
    await fill(settings, 1)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"pg_dump is not on the PATH: install .* postgresql-client-\d+"):
        await make_backup(settings, tmp_path / "fleet.tar", silent)


async def test_results_move_between_a_bucket_and_a_folder(
    tmp_path: Path, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3_server.create_bucket("backups")
    in_bucket = MasterSettings(data_dir=tmp_path / "first", port=0, results=f"{bucket}/first")
    ids = await fill(in_bucket, 3)
    await make_backup(in_bucket, tmp_path / "fleet.tar", silent)
    in_folder = MasterSettings(data_dir=tmp_path / "second", port=0)
    await restore_backup(in_folder, tmp_path / "fleet.tar", silent)
    await holds(in_folder, ids)
    again = MasterSettings(data_dir=tmp_path / "third", port=0, results=f"{bucket}/third")
    await restore_backup(again, tmp_path / "fleet.tar", silent)
    await holds(again, ids)
    (tmp_path / "third" / "crawlfleet.db").unlink()
    with pytest.raises(Conflict, match=r"results: s3://.*/third holds the results of an installation"):
        await restore_backup(again, tmp_path / "fleet.tar", silent)
