"""The commands backup and restore, as they are typed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crawlfleet.cli.app import app
from crawlfleet.cli.exit_codes import ExitCode
from crawlfleet.settings.master import MasterSettings
from tests.integration.bootstrap.maintenance.installations import fill

runner = CliRunner()


def run(*command: str) -> tuple[int, str, str]:
    result = runner.invoke(app, list(command))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    asyncio.run(fill(MasterSettings(data_dir=tmp_path / "first", port=0), 2))
    code, out, _ = run("backup", "fleet.tar", "--data-dir", "first")
    assert code == ExitCode.OK
    assert out.startswith("fleet.tar: ")
    assert out.endswith("with 2 tasks (2 pending) and 2 files of results (54 B)\n")
    return tmp_path / "fleet.tar"


def test_a_backup_is_checked_and_restored(file: Path) -> None:
    code, out, _ = run("backup", "--verify", str(file), "--json")
    answer = json.loads(out)
    assert (code, answer["is_whole"], answer["tasks"], answer["store"]) == (0, True, {"pending": 2}, "sqlite")
    code, out, err = run("restore", str(file), "--data-dir", "second")
    assert (code, out.startswith("restored; sqlite of "), err.startswith("next: start one master")) == (0, True, True)
    code, _, err = run("restore", str(file), "--data-dir", "second")
    assert code == ExitCode.FAILURE
    assert "--replace removes it" in err
    code, out, _ = run("restore", str(file), "--data-dir", "second", "--replace", "--json")
    assert (code, json.loads(out)["result_files"]) == (0, 2)


def test_what_is_wrong_is_told(file: Path, tmp_path: Path) -> None:
    code, _, err = run("backup", str(file), "--data-dir", "first")
    assert (code, "is there already" in err) == (ExitCode.FAILURE, True)
    code, _, err = run("backup", str(file), "--verify", str(file))
    assert (code, "leave the other file out" in err) == (ExitCode.USAGE, True)
    code, _, err = run("backup", "--verify", "missing.tar")
    assert (code, err) == (ExitCode.USAGE, "error: there is no file missing.tar\n")
    file.write_bytes(file.read_bytes()[:3000])
    code, _, err = run("restore", str(file), "--data-dir", "third")
    assert (code, "is no whole backup" in err, (tmp_path / "third").exists()) == (ExitCode.FAILURE, True, False)
