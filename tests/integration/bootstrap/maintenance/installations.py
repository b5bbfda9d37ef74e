"""A master that is open for as long as a test needs it, and what it holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from crawlfleet.bootstrap.results import open_place
from crawlfleet.bootstrap.serve import MasterProcess
from crawlfleet.client import AsyncClient
from crawlfleet.settings.master import MasterSettings

ITEMS = b'{"n": 1}\n{"n": 2}\n'


@asynccontextmanager
async def serving(settings: MasterSettings) -> AsyncIterator[AsyncClient]:
    process = await MasterProcess.open(settings)
    token = (settings.data_dir / "admin.token").read_text().strip()
    running = asyncio.create_task(process.serve())
    client = AsyncClient(process.url, token)
    try:
        yield client
    finally:
        await client.close()
        process.close()
        await running


async def put_chunk(settings: MasterSettings, task: str, execution: int = 7) -> None:
    """Leave a chunk of items for a task, as a node would."""
    await open_place(settings.results).put(int(task.rpartition("-")[2], 16), execution, "items", 0, ITEMS)


async def fill(settings: MasterSettings, count: int = 20) -> list[str]:
    """Make an installation with waiting tasks, each with a chunk of results; returns their ids."""
    async with serving(settings) as client:
        submitted = await client.submit_batch([{"task_type": "echo", "parameters": {"n": n}} for n in range(count)])
        ids = [item.id for item in submitted]
    for task in ids:
        await put_chunk(settings, task)
    return ids


def silent(_part: str, _done: int, _total: int | None) -> None: ...


def task_number(task: str) -> int:
    return int(task.rpartition("-")[2], 16)


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")} if folder.exists() else set()


async def holds(settings: MasterSettings, ids: list[str]) -> None:
    """The restored installation has every task and its results, and works."""
    place = open_place(settings.results)
    for task in ids:
        assert await place.read(task_number(task), 7, "items", 0) == ITEMS
    async with serving(settings) as client:
        stats = await client.stats()
        assert (stats.total, stats.by_status["pending"]) == (len(ids), len(ids))
        assert {(await client.get(task)).status for task in ids} == {"pending"}
        await client.submit("echo", {})
