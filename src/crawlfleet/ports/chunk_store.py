"""What executions leave behind: items, log lines and archived answers, in numbered chunks.

A chunk belongs to one execution and is a whole number of lines of JSON, or of records of WARC, each compressed by
itself. Chunks are written while the execution runs and
count only once its outcome was accepted: what a failed attempt left is there to be looked at, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from crawlfleet.model.ids import ExecutionId, TaskId

ChunkKind = Literal["items", "log", "warc"]

CHUNK_BYTES = 8 << 20
"""The largest chunk, as JSON lines or as compressed records."""
CHUNKS = 1_000_000
"""Chunks of one kind that one execution may leave."""
MARK = "installation"
"""The name under which a place keeps its mark, beside the chunks."""


class ChunkStore(Protocol):
    """Raises Unavailable when it cannot write or read; then nothing of that chunk has changed."""

    @property
    def trouble(self) -> str | None:
        """What it failed on lately, in words for everybody."""
        ...

    async def put(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int, data: bytes) -> None:
        """Keep a chunk (JSON lines, each with its end of line; or records). It is on disk when this returns.

        The same number again replaces it, whole or not at all.
        """
        ...

    async def read(self, task: TaskId, execution: ExecutionId, kind: ChunkKind, number: int) -> bytes | None:
        """The lines or records of a chunk, or None where there is none."""
        ...

    async def count(self, task: TaskId, execution: ExecutionId, kind: ChunkKind) -> int:
        """How many chunks there are from 0 on without a gap: those before a chunk that is still on its way."""
        ...

    async def drop(self, tasks: Sequence[TaskId]) -> None:
        """Forget everything that executions of these tasks left; doing it again changes nothing."""
        ...


class ResultsPlace(ChunkStore, Protocol):
    """Where chunks are kept, known by a mark that is kept with them, whatever name each machine has for it.

    Raises ConfigError for a place that cannot be used as it was set, Unavailable for one that does not answer.
    """

    async def mark(self) -> str | None: ...

    async def set_mark(self, text: str, *, is_replacing: bool = False) -> None:
        """Of many that set it at once, one does, unless it is to be replaced."""
        ...
