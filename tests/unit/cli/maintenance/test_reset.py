"""The command reset, as it is typed."""

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(fill(MasterSettings(data_dir=tmp_path / "fleet", port=0), 2))
    return tmp_path / "fleet"


def test_the_name_is_needed_and_must_be_right(folder: Path) -> None:
    command = ["reset", "--data-dir", str(folder)]
    asked = CliRunner().invoke(app, command)
    assert (asked.exit_code, "the name is fleet" in asked.stderr) == (ExitCode.USAGE, True)
    wrong = CliRunner().invoke(app, [*command, "--yes", "flet"])
    assert (wrong.exit_code, wrong.stderr) == (
        ExitCode.FAILURE,
        "error: the name is fleet, not flet: nothing was removed\n",
    )
    assert (folder / "crawlfleet.db").exists()
    right = CliRunner().invoke(app, [*command, "--yes", "fleet", "--json"])
    assert (right.exit_code, json.loads(right.stdout)["tasks"]) == (ExitCode.OK, {"pending": 2})
    assert not (folder / "crawlfleet.db").exists()
    gone = CliRunner().invoke(app, [*command, "--yes", "fleet"])
    assert (gone.exit_code, "there is no database" in gone.stderr) == (ExitCode.USAGE, True)
