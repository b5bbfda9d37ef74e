"""Clean-up of results over a real folder: in pages, by the rows that exist."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from crawlfleet.control.results.clean_up import CleanUp, CleanUpStore, finished_before
from crawlfleet.model.installation.retention import Retention
from crawlfleet.ports.clock import SystemClock
from crawlfleet.results import chunk_folder
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.results.chunk_names import parse_task

FIRST = 0x1122334455667700


class RowsOfEvenTasks:
    """A store in which every second task exists."""

    async def tasks_without_row(self, tasks: list[int]) -> set[int]:
        return {task for task in tasks if task % 2}


async def test_orphans_are_found_page_by_page_and_only_they_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_folder, "PAGE", 3)
    chunks = FolderChunks(tmp_path)
    for task in range(FIRST, FIRST + 8):
        await chunks.put(task, 7, "items", 0, b"{}\n")
    service = CleanUp(
        store=cast("CleanUpStore", RowsOfEvenTasks()),
        chunks=chunks,
        clock=SystemClock(),
        retention=Retention(),
        parse_task=parse_task,
    )
    pages, cursor = [], ""
    while True:
        report = await service.remove_orphans(cursor, is_applied=True)
        if report.cursor is None:
            break
        pages.append((report.files, report.orphans))
        cursor = report.cursor
    assert pages == [(3, 1), (3, 2), (2, 1)]
    left = [parse_task(file.name) async for page in chunks.list_files() for file in page]
    assert left == list(range(FIRST, FIRST + 8, 2))


def test_the_instant_before_which_a_task_ended() -> None:
    assert finished_before(10_000, 2.5) == 7_500
