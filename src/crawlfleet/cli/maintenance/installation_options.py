"""What the commands that work on an installation without its API share: which installation, progress, Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from crawlfleet.cli.exit_codes import ExitCode, print_to_stderr
from crawlfleet.cli.output import Output
from crawlfleet.cli.processes import process_options

if TYPE_CHECKING:
    from crawlfleet.settings.master import MasterSettings

T = TypeVar("T")

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", help="As the master has it: sqlite:///FILE or postgresql://...; in the data dir if not given."
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="The master's folder; ~/.local/share/crawlfleet if not given."),
]
REPORT_EVERY_S = 10.0
"""Interval in seconds of the lines about progress where standard error is no terminal."""


def load_installation(
    config: Path | None, data_dir: Path | None, store: str | None, results: str | None
) -> MasterSettings:
    """Load the settings of the master, or of the standalone installation, that the configuration is for."""
    from crawlfleet.settings.loading import load_mode
    from crawlfleet.settings.master import MasterSettings, StandaloneSettings

    mode = load_mode(process_options.config_file(config), os.environ, None)
    cls = StandaloneSettings if mode == StandaloneSettings.section else MasterSettings
    flags = {"--data-dir": data_dir, "--store": store, "--results": results}
    return process_options.load_settings(cls, config, flags).settings


def run_until_signal(
    work: Coroutine[Any, Any, T],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    *,
    on_interrupt: str = "nothing was left behind",
) -> T:
    """Run the work; Ctrl-C and SIGTERM cancel it, it removes what it began, and the command ends with 130 and a line
    that says what the interruption left."""

    async def run() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        return await task

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(run())
    except asyncio.CancelledError:
        print_to_stderr(f"interrupted: {on_interrupt}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


class ProgressLine:
    """Progress of a long command on standard error: one line that changes on a terminal, a line at intervals else."""

    def __init__(self, out: Output, now: Callable[[], float] = time.monotonic) -> None:
        self._console = out.stderr
        self._now = now
        self._every_s = 0.1 if self._console.is_terminal else REPORT_EVERY_S
        self._next_at = now() + self._every_s
        self._has_line = False

    def report(self, part: str, done_bytes: int, total_bytes: int | None) -> None:
        if self._now() < self._next_at:
            return
        self._next_at = self._now() + self._every_s
        of_total = "" if not total_bytes else f" of {display_bytes(total_bytes)}"
        text = f"{part}: {display_bytes(done_bytes)}{of_total}"
        if self._console.is_terminal:
            self._console.print(f"\r{text:<60}", end="")
            self._has_line = True
        else:
            self._console.print(text)

    def close(self) -> None:
        if self._has_line:
            self._console.print(f"\r{'':<60}\r", end="")


def display_bytes(count: int) -> str:
    """Return a number of bytes for people: 12.3 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
