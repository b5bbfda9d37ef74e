"""The output of executions, stored in numbered chunks: items, log lines and archived responses.

A chunk belongs to one execution and is a whole number of lines of JSON, or of records of WARC, each compressed by
itself. Chunks are written while the execution runs and count only once its outcome was accepted: the chunks of a failed
execution can be inspected, and are used for nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal, NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, TaskId

ChunkKind = Literal["items", "log", "warc"]

CHUNK_BYTES = 8 << 20
"""The largest size of a chunk, as JSON lines or as compressed records."""
CHUNKS = 1_000_000
"""The largest number of chunks of one kind that one execution may leave."""
MARK = "installation"
"""The name under which a storage location keeps its mark, beside the chunks."""


class ChunkFile(NamedTuple):
    """A stored chunk as a file or an object, compressed as it lies there."""

    name: str
    """The path below the storage location; the same in a folder and in a bucket."""
    size_bytes: int


class ChunkStore(Protocol):
    """Storage of chunks. Raises Unavailable when it cannot write or read; then nothing of that chunk has changed."""

    @property
    def trouble(self) -> str | None:
        """Describe the most recent failure, in words for all users; None without one."""
        ...

    async def put(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int, data: bytes) -> None:
        """Store a chunk (JSON lines, each with its end of line; or records). It is on disk when this returns.

        A second call with the same number replaces the chunk, whole or not at all.
        """
        ...

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        """Return the lines or records of a chunk, or None where there is none."""
        ...

    async def count(self, task: TaskId, execution: ExecutionId, kind: ChunkKind) -> int:
        """Count the chunks from 0 on without a gap: those before a chunk that is still on its way."""
        ...

    async def drop(self, tasks: Sequence[TaskId]) -> None:
        """Remove all output of the executions of these tasks; doing it again changes nothing."""
        ...

    def list_files(self, after: str = "") -> AsyncIterator[list[ChunkFile]]:
        """Yield the files of all chunks in pages, in the order of their names, so that those of one task stand
        together; only those behind the name `after`. Files that appear or are removed meanwhile may be listed or
        not."""
        ...


class ResultsPlace(ChunkStore, Protocol):
    """A storage location of chunks, identified by a mark stored with them, whatever path each machine has for it.

    Raises ConfigError for a location that cannot be used as it was configured, Unavailable for one that does not
    answer.
    """

    async def mark(self) -> str | None: ...

    async def set_mark(self, text: str, *, is_replacing: bool = False) -> None:
        """Store the mark. Of many concurrent calls one succeeds in setting it, unless the mark is to be replaced."""
        ...

    async def remove_mark(self) -> None:
        """Remove the mark: the storage location belongs to no installation any more."""
        ...

    async def read_file(self, name: str) -> bytes | None:
        """Return the content of a chunk's file as it is stored, or None where there is none any more."""
        ...

    async def write_file(self, name: str, body: bytes) -> None:
        """Store a chunk's file as another storage location had it, whole or not at all."""
        ...


class PageNoteReader(Protocol):
    """Reads the page notes of an execution, which crawls keep among the items of their executions."""

    async def read_notes(self, task: TaskId, execution: ExecutionId, chunks: int, number: int) -> bytes:
        """Return the notes in one of the execution's `chunks` of items, as JSON lines; none beyond the last chunk.

        Raises NotFound for a chunk that is no longer kept.
        """
        ...
