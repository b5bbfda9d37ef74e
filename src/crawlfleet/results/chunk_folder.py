"""The chunk store in a folder: one compressed file for each chunk.

    <path>/<first digits of the task>/<task>/<execution>/<kind>-<number>.jsonl.zst (records: .warc.gz)

The first digits of an id are its time, so that a folder fills for some minutes and does not change afterwards, and
retention removes whole folders. A file appears under its name only when all of it is on disk.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import TypeVar

import zstandard

from crawlfleet.errors import ConfigError, Unavailable
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import MARK, ChunkFile, ChunkKind
from crawlfleet.results.chunk_names import (
    chunk_name,
    compress_chunk,
    decompress_chunk,
    execution_name,
    folder_name,
    parse_task,
)
from crawlfleet.results.recent_failures import RecentFailure
from crawlfleet.settings.private_files import make_private_folder, open_private, restrict_to_owner

PAGE = 1_000
_TRIES = 3
_FOLDERS_DEEP = 3
"""Levels of folders above the files of chunks: first digits, task, execution."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
AnswerT = TypeVar("AnswerT")


class FolderChunks:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._attempts = count()
        self._failure = RecentFailure()

    @property
    def trouble(self) -> str | None:
        return self._failure.recent_message

    async def put(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int, data: bytes) -> None:
        await self._run_in_thread(
            lambda: self._put_chunk(self._chunk_file(task, execution, kind, number), compress_chunk(kind, data)),
            "write",
        )

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        return await self._run_in_thread(
            lambda: _read_chunk(self._chunk_file(task, execution, kind, number), kind), "read"
        )

    async def count(self, task: TaskId, execution: ExecutionId, kind: ChunkKind) -> int:
        return await self._run_in_thread(
            lambda: _count_chunks(self._execution_folder(task, execution), kind), "look at"
        )

    async def drop(self, tasks: Sequence[TaskId]) -> None:
        await self._run_in_thread(lambda: self._drop_folders(tasks), "drop")

    async def mark(self) -> str | None:
        try:
            return await asyncio.to_thread(self._read_mark)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"results: {self._path / MARK} cannot be read: {exc}") from exc

    async def set_mark(self, text: str, *, is_replacing: bool = False) -> None:
        try:
            await asyncio.to_thread(self._write_mark, text, is_replacing)
        except OSError as exc:
            raise ConfigError(f"results: {self._path} cannot be written: {exc.strerror}") from exc

    async def remove_mark(self) -> None:
        await self._run_in_thread(lambda: (self._path / MARK).unlink(missing_ok=True), "unmark")

    async def list_files(self, after: str = "") -> AsyncIterator[list[ChunkFile]]:
        files = _walk_files(self._path, after)
        while page := await self._run_in_thread(lambda: list(islice(files, PAGE)), "list"):
            yield page

    async def read_file(self, name: str) -> bytes | None:
        try:
            return await self._run_in_thread((self._path / name).read_bytes, "read")
        except Unavailable as exc:
            if isinstance(exc.__cause__, FileNotFoundError):
                self._failure.clear()
                return None
            raise

    async def write_file(self, name: str, body: bytes) -> None:
        await self._run_in_thread(lambda: self._put_chunk(self._path / name, body), "write")

    async def _run_in_thread(self, action: Callable[[], AnswerT], verb: str) -> AnswerT:
        try:
            answer = await asyncio.to_thread(action)
        except (OSError, zstandard.ZstdError) as exc:
            is_full = isinstance(exc, OSError) and exc.errno in _FULL
            message = f"cannot {verb} a chunk of results" + (": their disk is full" if is_full else "")
            self._failure.note_failure(message)
            raise Unavailable(f"cannot {verb} a chunk of results: {exc}", told=message) from exc
        self._failure.clear()
        return answer

    def _task_folder(self, task: TaskId) -> Path:
        return self._path / folder_name(task)

    def _execution_folder(self, task: TaskId, execution: ExecutionId) -> Path:
        return self._path / execution_name(task, execution)

    def _chunk_file(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> Path:
        return self._execution_folder(task, execution) / chunk_name(kind, number)

    def _put_chunk(self, file: Path, body: bytes) -> None:
        # Two calls with one chunk number, the second after a lost answer, must not write into one temporary file.
        temporary = file.with_name(f"{file.name}.{os.getpid()}-{next(self._attempts)}.part")
        for attempt in range(_TRIES):
            try:
                _make_folder(file.parent, self._path)
                _write_file(temporary, body)
                temporary.replace(file)
                _sync_folder(file.parent)
            except FileNotFoundError:
                # A concurrent `drop` removed an empty folder between two of these steps.
                if attempt == _TRIES - 1:
                    raise
            except OSError:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise
            else:
                return

    def _read_mark(self) -> str:
        mark = (self._path / MARK).read_text().strip()
        # A folder with a mark belongs to one installation. Tighten the permissions of all that earlier versions left
        # open.
        restrict_to_owner(self._path)
        return mark

    def _write_mark(self, text: str, is_replacing: bool) -> None:
        _make_folder(self._path, self._path)
        file = self._path / MARK
        temporary = file.with_name(f"{MARK}.{os.getpid()}-{next(self._attempts)}.part")
        _write_file(temporary, f"{text}\n".encode())
        try:
            if is_replacing:
                temporary.replace(file)
            else:
                with suppress(FileExistsError):
                    os.link(temporary, file)
            _sync_folder(self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def _drop_folders(self, tasks: Sequence[TaskId]) -> None:
        for task in tasks:
            folder = self._task_folder(task)
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
            # This fails while the folder holds other tasks, which is fine.
            with suppress(OSError):
                folder.parent.rmdir()


def _walk_files(root: Path, after: str, folder: str = "", depth: int = 0) -> Iterator[ChunkFile]:
    try:
        names = sorted(entry.name for entry in os.scandir(root / folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = f"{folder}/{name}" if folder else name
        if path < after[: len(path)]:
            continue
        if depth < _FOLDERS_DEEP:
            yield from _walk_files(root, after, path, depth + 1)
        elif path > after and parse_task(path) is not None:
            with suppress(FileNotFoundError):
                yield ChunkFile(path, (root / path).stat().st_size)


def _read_chunk(file: Path, kind: ChunkKind) -> bytes | None:
    try:
        body = file.read_bytes()
    except FileNotFoundError:
        return None
    return decompress_chunk(kind, body)


def _count_chunks(folder: Path, kind: ChunkKind) -> int:
    try:
        names = {entry.name for entry in os.scandir(folder)}
    except FileNotFoundError:
        return 0
    return next(number for number in count() if chunk_name(kind, number) not in names)


def _make_folder(folder: Path, root: Path) -> None:
    """Make the folder and its missing parents, each synced to disk in its parent folder."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder == root:
            break
        folder = folder.parent
    for made in reversed(missing):
        make_private_folder(made)
        _sync_folder(made.parent)


def _write_file(file: Path, body: bytes) -> None:
    with open(file, "xb", opener=open_private) as out:
        out.write(body)
        out.flush()
        os.fsync(out.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
