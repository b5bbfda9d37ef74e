"""Restore on each store: every refusal and every failure changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.bootstrap.maintenance import restore as restore_module
from crawlfleet.bootstrap.maintenance.backup import make_backup
from crawlfleet.bootstrap.maintenance.restore import restore_backup
from crawlfleet.bootstrap.results import open_place
from crawlfleet.errors import ConfigError, Conflict, InvalidInput, Unavailable
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.conftest import Places
from tests.integration.bootstrap.maintenance.installations import fill, holds, names_below, serving, silent, task_number

pytestmark = pytest.mark.integration


async def test_a_restore_is_refused_while_a_master_runs(places: Places, tmp_path: Path) -> None:
    first, second = places.settings("first"), places.settings("second")
    await fill(first, 1)
    await make_backup(first, tmp_path / "fleet.tar", silent)
    await fill(second, 3)
    async with serving(second) as client:
        before = names_below(second.data_dir)
        with pytest.raises(Conflict, match="a master works with"):
            await restore_backup(second, tmp_path / "fleet.tar", silent, is_replacing=True)
        assert names_below(second.data_dir) == before
        assert (await client.stats()).total == 3


async def test_what_is_there_is_only_replaced_when_asked(places: Places, tmp_path: Path) -> None:
    first, second = places.settings("first"), places.settings("second")
    ids = await fill(first)
    await make_backup(first, tmp_path / "fleet.tar", silent)
    others = await fill(second, 3)
    before = names_below(second.data_dir)
    with pytest.raises(Conflict, match="--replace removes it"):
        await restore_backup(second, tmp_path / "fleet.tar", silent)
    assert names_below(second.data_dir) == before
    await restore_backup(second, tmp_path / "fleet.tar", silent, is_replacing=True)
    assert await open_place(second.results).read(task_number(others[0]), 7, "items", 0) is None
    await holds(second, ids)


async def test_a_damaged_backup_changes_nothing(places: Places, tmp_path: Path) -> None:
    first, second = places.settings("first"), places.settings("second")
    await fill(first)
    file = tmp_path / "fleet.tar"
    await make_backup(first, file, silent)
    body = bytearray(file.read_bytes())
    body[600] ^= 1
    file.write_bytes(body)
    with pytest.raises(InvalidInput, match=r"no whole backup: store/crawlfleet\.\S+ is damaged"):
        await restore_backup(second, file, silent)
    assert not second.data_dir.exists()


async def test_a_restore_that_fails_at_the_last_step_puts_back_what_was_there(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = places.settings("first"), places.settings("second")
    ids = await fill(first)
    await make_backup(first, tmp_path / "fleet.tar", silent)
    others = await fill(second, 3)

    async def fail(_self: object) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as patched, pytest.raises(Unavailable, match="away"):
        for name in ("_SqliteTarget", "_PostgresTarget"):
            patched.setattr(getattr(restore_module, name), "commit", fail)
        await restore_backup(second, tmp_path / "fleet.tar", silent, is_replacing=True)
    await holds(second, others)
    assert not [name for name in names_below(second.data_dir) if "restore" in name or "replaced" in name]
    third = places.settings("third")
    with monkeypatch.context() as patched, pytest.raises(Unavailable, match="away"):
        for name in ("_SqliteTarget", "_PostgresTarget"):
            patched.setattr(getattr(restore_module, name), "commit", fail)
        await restore_backup(third, tmp_path / "fleet.tar", silent)
    await restore_backup(third, tmp_path / "fleet.tar", silent)
    await holds(third, ids)


async def test_the_kind_of_store_and_the_revision_must_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = MasterSettings(data_dir=tmp_path / "first", port=0)
    await fill(first, 1)
    await make_backup(first, tmp_path / "fleet.tar", silent)
    other = MasterSettings(data_dir=tmp_path / "second", store="postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(ConfigError, match="the backup is of sqlite, and the store is not"):
        await restore_backup(other, tmp_path / "fleet.tar", silent)
    monkeypatch.setattr(restore_module, "known_revisions", lambda: {"0000"})
    with pytest.raises(ConfigError, match=r"newer version .* install crawlfleet"):
        await restore_backup(MasterSettings(data_dir=tmp_path / "second"), tmp_path / "fleet.tar", silent)
    assert not (tmp_path / "second").exists()
