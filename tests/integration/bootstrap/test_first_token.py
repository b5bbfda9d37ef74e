"""The first admin token: its file is never lost, whatever moment the first start ends at."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlfleet.bootstrap import serve
from crawlfleet.bootstrap.serve import MasterProcess
from crawlfleet.model.principal import Role
from crawlfleet.settings.master import MasterSettings


def settings(folder: Path) -> MasterSettings:
    return MasterSettings(data_dir=folder, port=0, store=f"sqlite:///{folder}/crawlfleet.db")


async def opened_and_closed(folder: Path) -> MasterProcess:
    process = await MasterProcess.open(settings(folder))
    process.close()
    await process.serve()
    return process


async def test_the_first_start_keeps_it_and_the_second_leaves_it(tmp_path: Path) -> None:
    first = await opened_and_closed(tmp_path)
    file = tmp_path / "admin.token"
    assert file.read_text().strip() == first.admin_token
    assert file.stat().st_mode & 0o777 == 0o600
    second = await opened_and_closed(tmp_path)
    assert second.admin_token is None
    assert file.read_text().strip() == first.admin_token
    assert not (tmp_path / "admin.token.new").exists()


async def test_a_start_that_ends_between_store_and_file_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_self: Path, _target: Path) -> Path:
        raise OSError("killed here")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed here"):
        patched.setattr(serve, "write_private", lambda path, text: path.write_text(f"{text}\n"))
        patched.setattr(Path, "replace", die)
        await MasterProcess.open(settings(tmp_path))
    assert not (tmp_path / "admin.token").exists()
    process = await MasterProcess.open(settings(tmp_path))
    try:
        assert process.admin_token is None
        secret = (tmp_path / "admin.token").read_text().strip()
        assert (await process.master.tokens.authenticate(secret)).role is Role.ADMIN
    finally:
        process.close()
        await process.serve()
