"""The same verb for everything a filter finds, page by page: nothing is held in memory but a page."""

from __future__ import annotations

from collections.abc import AsyncIterator

from crawlfleet.model.ids import TaskId
from crawlfleet.ports.store import Reads, TaskFilter

PAGE = 1_000


async def task_pages(store: Reads, where: TaskFilter) -> AsyncIterator[list[TaskId]]:
    before: TaskId | None = None
    while page := await store.list_tasks(where, PAGE, before):
        yield [record.id for record in page]
        before = page[-1].id
