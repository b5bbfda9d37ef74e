"""The file lock that allows one master per SQLite file. The operating system holds it: a master that died holds
nothing."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from crawlfleet.errors import ConfigError, StoreInUse


class FileLock:
    """A lock that is held for the life of the process that opened the file."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.lock")
        self._file: int | None = None

    def acquire(self) -> None:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise ConfigError(f"store: {self._path} cannot be written: {exc.strerror}") from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.read(file, 100).decode(errors="replace").strip() or "another process"
            os.close(file)
            raise StoreInUse(
                f"store: {self._path.with_suffix('')} is in use by {holder}. One SQLite file serves one master; "
                "for several masters use PostgreSQL (store = postgresql://...)"
            ) from exc
        try:
            os.ftruncate(file, 0)
            os.write(file, f"process {os.getpid()}\n".encode())
        except OSError as exc:
            os.close(file)
            raise ConfigError(f"store: {self._path} cannot be written: {exc.strerror}") from exc
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
