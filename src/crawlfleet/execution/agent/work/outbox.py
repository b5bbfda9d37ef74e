"""Outbox: outcomes on the node's disk until a master has acknowledged them; the only state that outlives the agent.

An append-only file of frames:

    4 bytes  length of the record, little endian
    4 bytes  CRC-32 of the length and the record
    n bytes  the record, JSON: an outcome added, or executions acknowledged

Additions are synced before `add` returns; acknowledgements are not, since a lost one only means that the outcome is
sent again and found stale. All bytes after the first incomplete frame were never reported as saved, and are
cut when the file is opened. The record is JSON because a result is JSON that is passed on without being read.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import msgspec

from crawlfleet.errors import InvariantBroken
from crawlfleet.settings.private_files import make_private_folder, open_private, restrict_to_owner
from crawlfleet.wire.sync import OutcomeBody

FILE_NAME = "outcomes-1.log"
COMPACT_BYTES = 1 << 20
_HEAD = Struct("<II")
_LENGTH = Struct("<I")


class EndedExecution(NamedTuple):
    """An outcome, and the monotonic time at which its execution started: spans are computed at each send."""

    outcome: OutcomeBody
    started_at: float | None = None


class _Added(msgspec.Struct, array_like=True, frozen=True, tag="added"):
    outcome: OutcomeBody


class _Acknowledged(msgspec.Struct, array_like=True, frozen=True, tag="acknowledged"):
    executions: list[int]


_DECODER = msgspec.json.Decoder(_Added | _Acknowledged)


class Outbox:
    """The file of outcomes that no master has acknowledged."""

    def __init__(self, directory: Path, *, is_synced: bool = True, compact_bytes: int = COMPACT_BYTES) -> None:
        self._path = directory / FILE_NAME
        self._is_synced = is_synced
        self._compact_bytes = compact_bytes
        self._pending: dict[int, EndedExecution] = {}
        self._frame_bytes: dict[int, int] = {}
        self._is_damaged = False
        make_private_folder(directory)
        for path in (directory, self._path):
            restrict_to_owner(path)
        self._size = self._replay_file()
        self._file: FileIO | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, execution: int) -> bool:
        return execution in self._pending

    def get(self, execution: int) -> EndedExecution | None:
        return self._pending.get(execution)

    def pending_outcomes(self) -> list[EndedExecution]:
        """Outcomes that no master has acknowledged, oldest first."""
        return list(self._pending.values())

    def add(self, ended: Sequence[EndedExecution]) -> None:
        """Write outcomes to disk, synced when this returns. An execution that is already here keeps its first outcome.

        Raises OSError when the write fails; none of them is here then.
        """
        new: dict[int, EndedExecution] = {}
        for outcome, started_at in ended:
            if outcome.execution not in self._pending:
                stored = msgspec.structs.replace(outcome, started_ms_ago=None)
                new.setdefault(outcome.execution, EndedExecution(stored, started_at))
        if not new:
            return
        frames = {execution: _encode_frame(_Added(execution_end.outcome)) for execution, execution_end in new.items()}
        self._append(b"".join(frames.values()), is_synced=self._is_synced)
        self._pending.update(new)
        self._frame_bytes.update((execution, len(frame)) for execution, frame in frames.items())

    def replace(self, ended: EndedExecution) -> None:
        """Replace the outcome of an execution. Raises OSError; the older outcome stays then."""
        stored = EndedExecution(msgspec.structs.replace(ended.outcome, started_ms_ago=None), ended.started_at)
        execution, frame = stored.outcome.execution, _encode_frame(_Added(stored.outcome))
        # In one write: cut off in the middle, the older one is forgotten, as if it had never been saved.
        self._append(_encode_frame(_Acknowledged([execution])) + frame, is_synced=self._is_synced)
        self._pending[execution] = stored
        self._frame_bytes[execution] = len(frame)

    def drop(self, executions: Iterable[int]) -> list[int]:
        """Drop acknowledged outcomes; returns the executions that were here."""
        dropped = [execution for execution in dict.fromkeys(executions) if execution in self._pending]
        if not dropped:
            return []
        for execution in dropped:
            del self._pending[execution], self._frame_bytes[execution]
        try:
            self._append(_encode_frame(_Acknowledged(dropped)), is_synced=False)
            if self._size > self._compact_bytes and 2 * sum(self._frame_bytes.values()) < self._size:
                self._rewrite_file()
        except OSError:
            # Nothing is lost by it: after a restart these are sent once more. The next write mends the file.
            self._is_damaged = True
        return dropped

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, frames: bytes, *, is_synced: bool) -> None:
        if self._is_damaged:
            self._rewrite_file()
        try:
            file = self._open_file()
            _write_all(file, frames)
            if is_synced:
                os.fsync(file.fileno())
        except OSError:
            # A half-written frame would hide what follows it, and after a failed sync the kernel may have dropped
            # pages that it calls clean: only a new file is sure.
            self._is_damaged = True
            raise
        self._size += len(frames)

    def _rewrite_file(self) -> None:
        new_path = self._path.with_suffix(".new")
        frames = {
            execution: _encode_frame(_Added(execution_end.outcome))
            for execution, execution_end in self._pending.items()
        }
        with FileIO(str(new_path), "w", opener=open_private) as file:
            _write_all(file, b"".join(frames.values()))
            if self._is_synced:
                os.fsync(file.fileno())
        new_path.replace(self._path)
        self._sync_directory()
        self.close()
        self._size = sum(map(len, frames.values()))
        self._is_damaged = False

    def _replay_file(self) -> int:
        """Read the file; returns the size of its complete frames."""
        data = self._path.read_bytes() if self._path.exists() else b""
        position = 0
        while (end := _frame_end(data, position)) is not None:
            try:
                record = _DECODER.decode(data[position + _HEAD.size : end])
            except msgspec.MsgspecError as exc:
                raise InvariantBroken(f"{self._path}: cannot read the whole record at byte {position}") from exc
            if isinstance(record, _Added):
                self._pending.setdefault(record.outcome.execution, EndedExecution(record.outcome))
                self._frame_bytes.setdefault(record.outcome.execution, end - position)
            else:
                for execution in record.executions:
                    self._pending.pop(execution, None)
                    self._frame_bytes.pop(execution, None)
            position = end
        if position < len(data):
            os.truncate(self._path, position)
        return position

    def _open_file(self) -> FileIO:
        if self._file is None:
            self._file = FileIO(str(self._path), "a", opener=open_private)
            self._sync_directory()
        return self._file

    def _sync_directory(self) -> None:
        if not self._is_synced:
            return
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _encode_frame(record: _Added | _Acknowledged) -> bytes:
    body = msgspec.json.encode(record)
    return _HEAD.pack(len(body), _checksum(body)) + body


def _checksum(body: bytes) -> int:
    # The length is part of it: a tail of zeros must not read as empty records.
    return zlib.crc32(body, zlib.crc32(_LENGTH.pack(len(body))))


def _frame_end(data: bytes, position: int) -> int | None:
    """End of the frame at `position`; None when the frame is incomplete."""
    start = position + _HEAD.size
    if start > len(data):
        return None
    length, checksum = _HEAD.unpack_from(data, position)
    end = start + length
    if end > len(data) or _checksum(data[start:end]) != checksum:
        return None
    return int(end)


def _write_all(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
