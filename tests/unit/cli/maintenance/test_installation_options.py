"""Ctrl-C and progress of the commands that work on an installation."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
import typer

from crawlfleet.cli.exit_codes import ExitCode
from crawlfleet.cli.maintenance.installation_options import (
    ProgressLine,
    display_bytes,
    load_installation,
    run_until_signal,
)
from crawlfleet.cli.output import Output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_work_remove_what_it_began(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    removed = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            removed.append(True)

    with pytest.raises(typer.Exit) as ended:
        run_until_signal(work())
    assert (ended.value.exit_code, removed) == (ExitCode.INTERRUPTED, [True])
    assert "interrupted" in capsys.readouterr().err


def test_what_the_work_returns_and_raises_comes_through() -> None:
    async def work(number: int) -> int:
        return 1 // number

    assert run_until_signal(work(1)) == 1
    with pytest.raises(ZeroDivisionError):
        run_until_signal(work(0))


def test_without_a_terminal_a_line_comes_at_intervals_only(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = ProgressLine(Output(is_json=False), lambda: now)
    for second in range(25):
        now = float(second)
        progress.report("results", second << 20, None)
    progress.report("check", 5, 1 << 30)
    progress.close()
    assert capsys.readouterr().err.splitlines() == ["results: 10.0 MiB", "results: 20.0 MiB"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (2 << 40, "2.0 TiB")],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert display_bytes(count) == text


def test_the_configuration_of_a_standalone_installation_is_read_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "fleet.toml"
    file.write_text(f'mode = "standalone"\ndata_dir = "{tmp_path}/fleet"\nnodes = 3\n')
    settings = load_installation(file, None, None, None)
    assert (settings.data_dir, settings.results) == (tmp_path / "fleet", f"{tmp_path}/fleet/results")
    assert capsys.readouterr().err == ""
    assert load_installation(file, tmp_path / "other", None, None).store == f"sqlite:///{tmp_path}/other/crawlfleet.db"
