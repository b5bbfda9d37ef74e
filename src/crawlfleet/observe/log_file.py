"""The log file: lines are appended to it, and it is opened anew when a program such as logrotate has moved it.

The path is looked at before each line, so that the first line after a rotation is in the new file. A file that was
copied and cut off (copytruncate) needs nothing: lines are appended to its end, wherever that is.

A line that cannot be written, because the disk is full or the folder is gone, is written to standard error instead.
The log never stops the process: the next line is tried again.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

FILE_MODE = 0o640
"""Readable for the group of the file, for programs that collect logs."""


class LogFile:
    def __init__(self, path: Path, on_fault: Callable[[OSError], None], on_recovery: Callable[[int], None]) -> None:
        """Create the writer; it opens the file with the first line. `on_fault` gets the error of the first line that
        could not be written, and `on_recovery` the number of such lines when one can be written again."""
        self.path = path
        self._on_fault = on_fault
        self._on_recovery = on_recovery
        self._lock = threading.RLock()
        self._descriptor: int | None = None
        self._torn_file: os.stat_result | None = None
        """The file whose last line ends in the middle, as the disk was full."""
        self._lines_lost = 0
        self._must_reopen = False

    def write_line(self, line: str) -> bool:
        """Append a line; return whether it is in the file."""
        data = f"{line}\n".encode(errors="backslashreplace")
        with self._lock:
            try:
                self._append(data)
            except OSError as exc:
                self._lines_lost += 1
                self.close()
                if self._lines_lost == 1:
                    self._on_fault(exc)
                return False
            if self._lines_lost:
                lost, self._lines_lost = self._lines_lost, 0
                self._on_recovery(lost)
            return True

    def request_reopen(self) -> None:
        """Have the next line open the file anew; meant for signal handlers."""
        self._must_reopen = True

    def close(self) -> None:
        """Close the file; the next line opens it anew."""
        with self._lock:
            if self._descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(self._descriptor)
                self._descriptor = None

    def _append(self, data: bytes) -> None:
        descriptor = self._open()
        if self._torn_file is not None and os.path.samestat(self._torn_file, os.fstat(descriptor)):
            data = b"\n" + data
        written = 0
        while written < len(data):
            # One call for a whole line: lines of several processes in one file do not mix.
            written += os.write(descriptor, data[written:])
            self._torn_file = os.fstat(descriptor) if written < len(data) else None

    def _open(self) -> int:
        if self._descriptor is not None and not self._must_reopen and not self._was_moved(self._descriptor):
            return self._descriptor
        self._must_reopen = False
        self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        self._descriptor = os.open(self.path, flags, FILE_MODE)
        return self._descriptor

    def _was_moved(self, descriptor: int) -> bool:
        try:
            named = self.path.stat()
        except OSError:
            return True
        return not os.path.samestat(named, os.fstat(descriptor))
