"""Disks that can be filled and emptied: a small one of their own where the machine lets us mount it, else the nearest
error that can be had without."""

from __future__ import annotations

import errno
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.processes.fleet import Process

_BLOCK = b"x" * 4096


class Disk(Protocol):
    def fill(self) -> None: ...
    def empty(self) -> None: ...


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(_BLOCK)
            except OSError as exc:
                assert exc.errno == errno.ENOSPC

    def empty(self) -> None:
        self._filler.unlink()


class LimitedFile:
    """No file of the process may grow beyond the size that one of them has by now."""

    def __init__(self, process: Process, file: Path) -> None:
        self._process, self._file = process, file

    def fill(self) -> None:
        self._limit(self._file.stat().st_size)

    def empty(self) -> None:
        self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        for one in self._process.tree():
            one.rlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class BlockedFolder:
    """Something stands where the folder was."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._aside = folder, folder.with_name(f"{folder.name}-aside")

    def fill(self) -> None:
        self._folder.mkdir(exist_ok=True)
        self._folder.rename(self._aside)
        self._folder.touch()

    def empty(self) -> None:
        self._folder.unlink()
        self._aside.rename(self._folder)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk | None]:
    """At `folder`; None where mounting is not allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "crawlfleet-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        # Also while something of a failed test still stands in it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
