"""Page notes of crawls, which are stored among the items and recognised by their first bytes."""

from __future__ import annotations

from typing import Literal

from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.results.chunk_reader import Chunks

PAGE_NOTE = b'{"_page":'
"""First bytes of a page note: items are stored as executors wrote them, and crawls write this key first."""

Which = Literal["items", "pages", "all"]
"""Choice of items without page notes, page notes only, or both."""


def is_note(line: bytes | memoryview) -> bool:
    return bytes(line[: len(PAGE_NOTE)]) == PAGE_NOTE


def filter_lines(lines: bytes, which: Which) -> bytes:
    """Filter JSON lines by that choice. Most chunks have no page note, and are passed on as they are."""
    if which == "all" or (which == "items" and PAGE_NOTE not in lines):
        return lines
    wants_notes = which == "pages"
    return b"".join(line for line in lines.splitlines(keepends=True) if line.startswith(PAGE_NOTE) == wants_notes)


class StoredPageNotes:
    """Reader of page notes from the chunks of items."""

    def __init__(self, store: ChunkStore) -> None:
        self._store = store

    async def read_notes(self, task: TaskId, execution: ExecutionId, chunks: int, number: int) -> bytes:
        lines = await Chunks(self._store, task, execution, "items", chunks).read_lines(number)
        return b"".join(bytes(line) + b"\n" for line in lines if is_note(memoryview(line)))
