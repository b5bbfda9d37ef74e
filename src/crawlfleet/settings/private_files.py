"""Files and folders of a data directory that only their owner may read, whatever the umask."""

from __future__ import annotations

import os
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700
_OTHERS = 0o077


def open_private(path: str, flags: int) -> int:
    """Open a file, as an opener for `open` and `FileIO`; a file that it creates is accessible to its owner alone."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_private_folder(folder: Path) -> None:
    """Create the folder, and those above it that are missing, for their owner alone. One that exists stays as it is."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private_folder(folder.parent)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def restrict_to_owner(path: Path) -> None:
    """Remove the permissions of other users from a file or folder that belongs to the current user. A path that does
    not exist, or that belongs to another user, is left alone."""
    try:
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & _OTHERS:
            path.chmod(status.st_mode & 0o777 & ~_OTHERS)
    except FileNotFoundError:
        return


def write_private(path: Path, text: str) -> None:
    """Write the file atomically: whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
