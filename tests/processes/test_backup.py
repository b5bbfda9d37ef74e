"""The commands of docs/backup.md: back up an installation that is at work, and restore it elsewhere."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from testkit.servers import PostgresServer
from tests.processes.fleet import Fleet, echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 500
BATCH = 10
WAITING = {"task_type": "echo", "parameters": {}, "min_resources": {"nobody-has": 1}}


async def test_a_sqlite_installation_at_work_is_backed_up_and_restored(tmp_path: Path) -> None:
    await _back_up_and_restore(tmp_path, (), ())


@pytest.mark.postgres
async def test_a_postgresql_installation_at_work_is_backed_up_and_restored(
    tmp_path: Path, postgres_server: PostgresServer, postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = postgres_server.program("pg_dump").parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    restored = postgres_server.create_database()
    try:
        await _back_up_and_restore(tmp_path, ("--store", postgres_dsn), ("--store", restored))
    finally:
        postgres_server.drop_database(restored)


async def _back_up_and_restore(folder: Path, options: tuple[str, ...], restored_options: tuple[str, ...]) -> None:
    file = folder / "fleet.tar"
    for made in ("first", "second"):
        (folder / made).mkdir()
    async with fleet(folder / "first") as running:
        await running.start_master(*options)
        await running.start_worker("worker-0", "--executors", "tests.integration.execution.executors.user_executors")
        await running.until_online(1)
        streams = {"task_type": "streams", "parameters": {"file": str(folder / "progress"), "count": ITEMS}}
        done = await running.submit([streams, *(echo(n) for n in range(20))])
        await running.until_status(done, "completed")
        waiting = await running.submit([WAITING] * 5)
        async with _at_work(running) as answered:
            before = list(answered)
            backup = await _run(running, "backup", str(file), "--data-dir", str(running.data_dir), *options)
            while_at_work = len(answered)
    assert (backup["tasks"]["completed"] >= 21, backup["tasks"]["pending"] >= 5) == (True, True)
    assert len(before) + 26 <= sum(backup["tasks"].values()) <= while_at_work + 26 + BATCH
    async with fleet(folder / "second") as restored:
        whole = await _run(restored, "backup", "--verify", str(file))
        assert (whole["is_whole"], whole["tasks"]) == (True, backup["tasks"])
        options = ("--data-dir", str(restored.data_dir), *restored_options)
        assert (await _run(restored, "restore", str(file), *options))["tables"] == backup["tables"]
        await restored.start_master(*restored_options)
        assert (await restored.client.stats()).total == sum(backup["tasks"].values())
        for task in done:
            assert (await restored.client.get(task)).status == "completed"
        assert [item["number"] async for item in restored.client.results(done[0])] == list(range(ITEMS))
        for task in waiting:
            assert (await restored.client.get(task)).status == "pending"
        assert len(before) > 0
        code, text = await restored.run("restore", "restore", str(file), "--replace", *options)
        assert (code, "a master works with" in text) == (1, True)
        await restored.start_worker("worker-0")
        # What was answered before the backup is there, and what had not ended by then runs to its end.
        await restored.until_status(before, "completed")
        assert (await restored.client.get(waiting[0])).status == "pending"


async def _run(running: Fleet, *command: str) -> dict[str, Any]:
    code, text = await running.run(command[0], *command, "--json")
    assert code == 0, text
    # Where it takes long, lines of progress come before the answer.
    answer: dict[str, Any] = json.loads(text[text.index("{") :])
    return answer


@asynccontextmanager
async def _at_work(running: Fleet) -> AsyncIterator[list[str]]:
    """Tasks keep coming; the list grows with what was answered."""
    answered: list[str] = []

    async def submit() -> None:
        while True:
            answered.extend(await running.submit([echo(n) for n in range(BATCH)]))

    busy = asyncio.create_task(submit())
    try:
        await running.until(lambda: len(answered) >= 50, "nothing is taken")
        yield answered
    finally:
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
