"""Access to page notes, which crawls keep among the items of their executions."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.model.ids import ExecutionId, TaskId


class PageNoteReader(Protocol):
    """Reads the page notes of an execution."""

    async def read_notes(self, task: TaskId, execution: ExecutionId, chunks: int, number: int) -> bytes:
        """Return the notes in one of the execution's `chunks` of items, as JSON lines; none beyond the last chunk.

        Raises NotFound for a chunk that is no longer kept.
        """
        ...
