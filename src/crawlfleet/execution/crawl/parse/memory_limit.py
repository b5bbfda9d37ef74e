"""A limit of memory around work on what strangers wrote, for as long as it lasts.

Some pages of a few kilobytes become trees of gigabytes: HTML has a parser open unclosed tags again in every paragraph.
The parser asks the kernel for that memory piece by piece and takes no for an answer, so the kernel is told to say no.
The limit is one for the whole process. That is why it is wide, and there only while somebody is inside.
"""

from __future__ import annotations

import os
import resource
import time
from threading import Lock

ROOM_BYTES = 256 << 20
KNOWN_S = 0.1
"""For so long, what the process has is taken for what it had: to ask takes longer than many a page."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DATA = 5
"""The place of what is the process's own in `statm`."""


class _Process:
    """What the limit is about: there is one of it."""

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
    """Inside, the process gets so much more memory than it has; whoever comes meanwhile shares it."""

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
    """For a child that was started while its parent was inside."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
