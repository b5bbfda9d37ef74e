"""What earlier crawls noted of their pages, for the executions that come after them; read part by part."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.api.http.services import Services
from crawlfleet.api.routes.results.results import execution_with_items, items_of
from crawlfleet.errors import NotFound
from crawlfleet.model import ids
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.results.chunk_reader import Chunks
from crawlfleet.results.page_notes import is_note

OWN = "own"
CHUNKS_AT_ONCE = 20
"""Of a crawl over many nodes, in one part: each has notes on up to a hundred pages."""


class Notes(NamedTuple):
    parts: int
    lines: bytes


async def notes_of_task(services: Services, task: TaskId, earlier: TaskId, number: int) -> Notes:
    """Of one chunk of its items."""
    records = await services.store.tasks([task, earlier])
    if earlier not in records or records[earlier].project != records[task].project:
        raise NotFound(f"no task {ids.task_text(earlier)} in the project of {ids.task_text(task)}")
    found = await execution_with_items(services, earlier)
    if found.manifest is None:
        raise NotFound(f"{ids.task_text(earlier)} has not completed")
    parts = found.manifest.item_chunks
    return Notes(parts, await _notes(items_of(services, earlier, found), number) if number < parts else b"")


async def notes_of_crawl(services: Services, task: TaskId, of: str, number: int) -> Notes:
    """Of some of its reported chunks; of the crawl that the task itself takes part in, also while that goes on."""
    group = await _crawl(services, task, of)
    crawl = (await services.store.crawls([group])).get(group)
    if crawl is None:
        raise NotFound(f"{ids.group_text(group)} is no crawl over many nodes: name one of its tasks")
    if of != OWN and crawl.finished_at is None:
        raise NotFound(f"{ids.group_text(group)} has not completed")
    first = number * CHUNKS_AT_ONCE
    lines = [
        await _notes(Chunks(services.chunks, part.task, part.execution, "items", part.last), at)
        for part in await services.store.crawl_parts(group, first, CHUNKS_AT_ONCE)
        if part.number <= first + CHUNKS_AT_ONCE
        for at in range(part.first, part.last)
    ]
    return Notes(-(-crawl.chunks // CHUNKS_AT_ONCE), b"".join(lines))


async def _crawl(services: Services, task: TaskId, of: str) -> GroupId:
    record = (await services.store.tasks([task]))[task]
    if of == OWN:
        if record.group is None:
            raise NotFound(f"{ids.task_text(task)} takes part in no crawl over many nodes")
        return record.group
    group = ids.parse(of, "group", field="of")
    known = (await services.store.groups([group])).get(group)
    if known is None or known.project != record.project:
        raise NotFound(f"no group {ids.group_text(group)} in the project of {ids.task_text(task)}")
    return group


async def _notes(items: Chunks, number: int) -> bytes:
    return b"".join(bytes(line) + b"\n" for line in await items.lines(number) if is_note(memoryview(line)))
