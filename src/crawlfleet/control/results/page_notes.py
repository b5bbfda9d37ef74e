"""Page notes of earlier crawls, for the executions that come after them; read part by part."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.control.results.execution_lookup import ExecutionLookup
from crawlfleet.errors import NotFound
from crawlfleet.model import ids
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.ports.chunk_store import PageNoteReader
from crawlfleet.ports.store import CompositeStore

OWN = "own"
CHUNKS_AT_ONCE = 20
"""Number of URL batches of a crawl over many nodes in one part: each has notes on up to a hundred pages."""


class Notes(NamedTuple):
    parts: int
    lines: bytes


class PageNotes:
    def __init__(self, *, store: CompositeStore, reader: PageNoteReader, executions: ExecutionLookup) -> None:
        self._store = store
        self._reader = reader
        self._executions = executions

    async def read_task(self, task: TaskId, earlier: TaskId, number: int) -> Notes:
        """Return the page notes in one chunk of the earlier task's items."""
        records = await self._store.load_tasks([task, earlier])
        if earlier not in records or records[earlier].project != records[task].project:
            raise NotFound(f"no task {ids.task_text(earlier)} in the project of {ids.task_text(task)}")
        execution = await self._executions.find_with_items(earlier)
        if execution.execution is None or execution.manifest is None:
            raise NotFound(f"{ids.task_text(earlier)} has not completed")
        parts = execution.manifest.item_chunks
        if number >= parts:
            return Notes(parts, b"")
        return Notes(parts, await self._reader.read_notes(earlier, execution.execution, parts, number))

    async def read_crawl(self, task: TaskId, of: str, number: int) -> Notes:
        """Return the page notes in some of a crawl's reported URL batches; for the crawl that the task itself takes
        part in, also while it goes on."""
        group = await self._find_crawl(task, of)
        crawl = (await self._store.crawl_states([group])).get(group)
        if crawl is None:
            raise NotFound(f"{ids.group_text(group)} is no crawl over many nodes: name one of its tasks")
        if of != OWN and crawl.finished_at is None:
            raise NotFound(f"{ids.group_text(group)} has not completed")
        first = number * CHUNKS_AT_ONCE
        lines = [
            await self._reader.read_notes(part.task, part.execution, part.last, chunk)
            for part in await self._store.crawl_parts(group, first, CHUNKS_AT_ONCE)
            if part.number <= first + CHUNKS_AT_ONCE
            for chunk in range(part.first, part.last)
        ]
        return Notes(-(-crawl.chunks // CHUNKS_AT_ONCE), b"".join(lines))

    async def _find_crawl(self, task: TaskId, of: str) -> GroupId:
        record = (await self._store.load_tasks([task]))[task]
        if of == OWN:
            if record.group is None:
                raise NotFound(f"{ids.task_text(task)} takes part in no crawl over many nodes")
            return record.group
        group = ids.parse_id(of, "group", field="of")
        named = (await self._store.load_groups([group])).get(group)
        if named is None or named.project != record.project:
            raise NotFound(f"no group {ids.group_text(group)} in the project of {ids.task_text(task)}")
        return group
