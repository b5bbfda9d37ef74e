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

EXTRA_BYTES = 256 << 20
MEASURED_S = 0.1
"""Seconds for which the measured memory of the process is reused: measuring takes longer than parsing many a page."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_DATA = 5
"""Index of the size of the process's own data in `statm`."""


class _Process:
    """The limit of this process, of which there is only one."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.open_contexts = 0
        self.outer_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.data_bytes = 0
        self.measured_until = 0.0

    def set_limit(self, extra_bytes: int) -> None:
        now = time.monotonic()
        if now >= self.measured_until:
            self.outer_limit = resource.getrlimit(resource.RLIMIT_DATA)
            self.data_bytes = int(os.pread(self.statm, 200, 0).split()[_DATA]) * _PAGE_BYTES
            self.measured_until = now + MEASURED_S
        soft, hard = self.outer_limit
        max_bytes = self.data_bytes + extra_bytes
        if soft == resource.RLIM_INFINITY or max_bytes < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, hard))

    def lift_limit(self) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, self.outer_limit)


_process = _Process()


class MemoryLimit:
    """A context in which the process gets at most `extra_bytes` more memory; contexts that overlap share it."""

    def __init__(self, extra_bytes: int = EXTRA_BYTES) -> None:
        self._extra_bytes = extra_bytes

    def __enter__(self) -> None:
        with _process.lock:
            _process.open_contexts += 1
            if _process.open_contexts == 1:
                _process.set_limit(self._extra_bytes)

    def __exit__(self, *_: object) -> None:
        with _process.lock:
            _process.open_contexts -= 1
            if not _process.open_contexts:
                _process.lift_limit()


def lift_memory_limit() -> None:
    """Lift the limit in a child process that was started while its parent had set it."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
