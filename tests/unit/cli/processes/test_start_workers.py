"""What start-workers refuses before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crawlfleet.cli.app import app
from crawlfleet.cli.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--count", "0", "--master", "http://m:8000"], "--count"),
        (["--count", "65", "--master", "http://m:8000"], "65 is more than max_workers allows (64)"),
        (["--count", "2"], "masters"),
    ],
)
def test_a_wrong_option_is_named(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["start-workers", *options])
    assert (result.exit_code, message in result.stderr) == (ExitCode.USAGE, True)


def test_the_limit_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_MAX_WORKERS", "2")
    result = CliRunner().invoke(app, ["start-workers", "--master", "http://m:8000", "--data-dir", str(tmp_path)])
    assert "5 is more than max_workers allows (2)" in result.stderr
