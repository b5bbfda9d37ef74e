"""Which chunks are missing, by the manifests of completed tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import pytest

from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.control.results import repair
from crawlfleet.control.results.repair import MissingChunks, Repair, RepairStore
from crawlfleet.ports.clock import SystemClock
from crawlfleet.ports.maintenance_store import CompletedResult
from crawlfleet.results.chunk_folder import FolderChunks

FIRST = 0x1122334455667700


class FinishedTasks:
    """A store with these results, of which one task is removed while the check runs."""

    def __init__(self, results: Sequence[CompletedResult], gone: int) -> None:
        self._results = results
        self._gone = gone

    async def finished_results(self, after: int, limit: int) -> list[CompletedResult]:
        return [result for result in self._results if result.task > after][:limit]

    async def tasks_without_row(self, tasks: Sequence[int]) -> set[int]:
        return {self._gone} & set(tasks)


async def test_missing_chunks_are_found_page_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair, "BATCH", 2)
    manifests = [
        {"items": 5, "item_chunks": 2, "log_chunks": 1},
        {"items": 5, "item_chunks": 2, "warc_chunks": 1},
        {"items": 1, "item_chunks": 1},
        {"anything": "else"},
    ]
    results = [CompletedResult(FIRST + n, 7, msgspec.json.encode(manifest)) for n, manifest in enumerate(manifests)]
    results.append(CompletedResult(FIRST + 9, 7, None))
    chunks = FolderChunks(tmp_path)
    for number in (0, 1):
        await chunks.put(FIRST, 7, "items", number, b"{}\n")
    await chunks.put(FIRST, 7, "log", 0, b"{}\n")
    await chunks.put(FIRST + 1, 7, "items", 0, b"{}\n")
    store = cast("RepairStore", FinishedTasks(results, gone=FIRST + 2))
    service = Repair(store=store, broker=MemoryBroker(), chunks=chunks, clock=SystemClock())
    found, looked_at, cursor = [], 0, 0
    while True:
        check = await service.check_results(cursor)
        found += check.missing
        looked_at += check.looked_at
        if check.cursor is None:
            break
        cursor = check.cursor
    assert looked_at == 5
    assert found == [MissingChunks(FIRST + 1, 7, "items", 2, 1), MissingChunks(FIRST + 1, 7, "warc", 1, 0)]
