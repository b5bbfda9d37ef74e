"""A memory limit (RLIMIT_DATA) around the parsing of untrusted pages, for as long as it lasts.

Some pages of a few kilobytes become trees of gigabytes: HTML requires a parser to open unclosed tags again in every
paragraph. The parser requests that memory from the kernel piece by piece and handles a refusal, so a limit makes the
kernel refuse. The limit holds for the whole process. That is why it is wide, and set only while a page is being parsed.
"""

from __future__ import annotations

import os
import resource
import time
from threading import Lock

ROOM_BYTES = 256 << 20
KNOWN_S = 0.1
"""Seconds for which the measured memory of the process is reused: measuring takes longer than parsing many a page."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DATA = 5
"""Index of the size of the process's own data in `statm`."""


class _Process:
    """The limit of this process, of which there is only one."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.usual = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.data_bytes = 0
        self.known_until = 0.0

    def limit(self, room_bytes: int) -> None:
        now = time.monotonic()
        if now >= self.known_until:
            self.usual = resource.getrlimit(resource.RLIMIT_DATA)
            self.data_bytes = int(os.pread(self.statm, 200, 0).split()[_DATA]) * _PAGE_BYTES
            self.known_until = now + KNOWN_S
        soft, hard = self.usual
        most = self.data_bytes + room_bytes
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))

    def lift(self) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, self.usual)


_process = _Process()


class Room:
    """A context in which the process gets at most `room_bytes` more memory; contexts that overlap share it."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._room_bytes = room_bytes

    def __enter__(self) -> None:
        with _process.lock:
            _process.inside += 1
            if _process.inside == 1:
                _process.limit(self._room_bytes)

    def __exit__(self, *_: object) -> None:
        with _process.lock:
            _process.inside -= 1
            if not _process.inside:
                _process.lift()


def leave_room() -> None:
    """Lift the limit in a child process that was started while its parent had set it."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
