"""The items of many executions as one list: part after part, in the order of their tasks, with one chunk in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from crawlfleet.errors import InvalidInput
from crawlfleet.model import ids
from crawlfleet.model.ids import ExecutionId, TaskId, execution_text, task_text
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.results.chunk_reader import PAGE_BYTES, Chunks, Place

PAGE_PARTS = 2_000
"""Limit of the parts that are read for one page: many members may have no items at all."""


class Part(NamedTuple):
    """The part of a merged list that one task adds: the items of the execution that completed it."""

    task: TaskId
    execution: ExecutionId
    chunks: int
    """End of the chunks of this part, exclusive."""
    first: int = 0
    position: int = 0
    """Position of the part in the merged list, where that is not the task's id: a task may have many parts."""

    @property
    def place(self) -> int:
        return self.position or self.task


class Window(NamedTuple):
    parts: Sequence[Part]
    after: TaskId | None
    """Position at which the next window begins; None at the end. A window may have no part and yet not be the last."""


ReadParts = Callable[[TaskId], Awaitable[Window]]
"""Function that reads the window of parts after a task."""


class MergedPlace(NamedTuple):
    """A position in the merged list: after all items of a task, or within the items of one of its executions."""

    task: TaskId = 0
    execution: ExecutionId | None = None
    place: Place = Place()

    @property
    def text(self) -> str:
        if self.execution is None:
            return task_text(self.task)
        return f"{task_text(self.task)}.{execution_text(self.execution)}.{self.place.text}"

    @classmethod
    def from_text(cls, text: str, *, field: str) -> MergedPlace:
        task, *more = text.split(".", 2)
        task_id = ids.parse_id(task, "task", field=field)
        if not more:
            return cls(task_id)
        execution = ids.parse_id(more[0], "exec", field=field)
        return cls(task_id, execution, Place.from_text(more[1] if len(more) > 1 else "", field=field))


class MergedLines(NamedTuple):
    lines: list[msgspec.Raw]
    next: MergedPlace | None
    """Position of the next page; None at the end."""


class Merged:
    def __init__(self, store: ChunkStore, read_parts: ReadParts) -> None:
        self._store = store
        self._read_parts = read_parts

    async def read_page(
        self,
        start: MergedPlace,
        limit: int,
        *,
        max_bytes: int = PAGE_BYTES,
        keep: Callable[[msgspec.Raw], bool] | None = None,
    ) -> MergedLines:
        merged: list[msgspec.Raw] = []
        size = looked = 0
        # Within the items of an execution, read the window that begins with its task.
        after: TaskId | None = start.task if start.execution is None else start.task - 1
        place = None if start.execution is None else start.place
        while after is not None:
            window = await self._read_parts(after)
            for part in window.parts:
                if start.execution is not None:
                    _check_same_execution(start, part)
                start_at = place if place is not None else Place(part.first)
                lines = await self._part_chunks(part).read_page(
                    start_at, limit - len(merged), max_bytes=max_bytes - size, keep=keep
                )
                start, place = MergedPlace(), None
                merged += lines.lines
                size += sum(len(memoryview(line)) for line in lines.lines)
                if not lines.is_end:
                    return MergedLines(merged, MergedPlace(part.place, part.execution, lines.next))
                looked += 1
                if len(merged) == limit or size >= max_bytes or looked == PAGE_PARTS:
                    return MergedLines(merged, MergedPlace(part.place))
            if start.execution is not None:
                _check_same_execution(start, None)
            after = window.after
        return MergedLines(merged, None)

    async def stream_lines(self) -> AsyncIterator[bytes]:
        """Stream all items as JSON lines, one chunk at a time."""
        after: TaskId | None = 0
        while after is not None:
            window = await self._read_parts(after)
            for part in window.parts:
                async for data in self._part_chunks(part).stream_lines(part.first):
                    yield data
            after = window.after

    def _part_chunks(self, part: Part) -> Chunks:
        return Chunks(self._store, part.task, part.execution, "items", part.chunks)


def _check_same_execution(start: MergedPlace, part: Part | None) -> None:
    """Check that a page continues in the same execution. Raises InvalidInput if not: half of the items of an execution
    must not be followed by half of the items of its successor."""
    if part is None or (part.place, part.execution) != (start.task, start.execution):
        detail = f"{task_text(start.task)} was tried again meanwhile: begin again without it"
        raise InvalidInput(detail, field="cursor")
