"""Notes that crawls keep of their pages, among the items: told apart by how they begin."""

from __future__ import annotations

from typing import Literal

from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.results.chunk_reader import Chunks

PAGE_NOTE = b'{"_page":'
"""Items are kept as executors wrote them, and crawls write this first."""

Which = Literal["items", "pages", "all"]
"""Items without notes on pages, only those, or both."""


def is_note(line: bytes | memoryview) -> bool:
    return bytes(line[: len(PAGE_NOTE)]) == PAGE_NOTE


def chosen(lines: bytes, which: Which) -> bytes:
    """Of JSON lines those that are asked for. Most chunks have no note, and are passed on as they are."""
    if which == "all" or (which == "items" and PAGE_NOTE not in lines):
        return lines
    wants_notes = which == "pages"
    return b"".join(line for line in lines.splitlines(keepends=True) if line.startswith(PAGE_NOTE) == wants_notes)


class StoredPageNotes:
    """Reads notes on pages out of the chunks of items."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store

    async def read_notes(self, task: TaskId, execution: ExecutionId, chunks: int, number: int) -> bytes:
        lines = await Chunks(self._store, task, execution, "items", chunks).lines(number)
        return b"".join(bytes(line) + b"\n" for line in lines if is_note(memoryview(line)))
