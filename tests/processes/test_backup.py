"""The commands of docs/operations.md: back up an installation that is at work, and restore it elsewhere."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from testkit.patience import PATIENCE_S
from testkit.servers import PostgresServer
from tests.processes.fleet import Fleet, echo, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ITEMS = 500
WAITING = {"task_type": "echo", "parameters": {}, "min_resources": {"nobody-has": 1}}


async def test_a_sqlite_installation_at_work_is_backed_up_and_restored(tmp_path: Path) -> None:
    backup = tmp_path / "backup"

    def back_up(running: Fleet) -> None:
        # A read transaction of its own: neither stopped nor begun again by what is written meanwhile.
        statement = f"VACUUM INTO '{backup}/crawlfleet.db'"
        run(*_sqlite(running.data_dir / "crawlfleet.db", statement))

    def restore(data_dir: Path) -> tuple[str, ...]:
        shutil.copy(backup / "crawlfleet.db", data_dir / "crawlfleet.db")
        return ()

    await _back_up_and_restore(tmp_path, (), back_up, restore)


@pytest.mark.postgres
async def test_a_postgresql_installation_at_work_is_backed_up_and_restored(
    tmp_path: Path, postgres_server: PostgresServer, postgres_dsn: str
) -> None:
    dump = tmp_path / "backup" / "crawlfleet.dump"
    restored = postgres_server.create_database()

    def back_up(_running: Fleet) -> None:
        run(postgres_server.program("pg_dump"), "--format=custom", f"--file={dump}", postgres_dsn)

    def restore(_data_dir: Path) -> tuple[str, ...]:
        run(postgres_server.program("pg_restore"), "--no-owner", "--exit-on-error", f"--dbname={restored}", dump)
        return ("--store", restored)

    try:
        await _back_up_and_restore(tmp_path, ("--store", postgres_dsn), back_up, restore)
    finally:
        postgres_server.drop_database(restored)


async def _back_up_and_restore(
    folder: Path, options: tuple[str, ...], back_up: Callable[[Fleet], None], restore: Callable[[Path], tuple[str, ...]]
) -> None:
    backup = folder / "backup"
    for made in ("backup", "first", "second"):
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
            # The database first, then the results: what it refers to was written before it.
            await asyncio.to_thread(back_up, running)
            await asyncio.to_thread(run, "cp", "-a", running.data_dir / "results", backup)
        shutil.copy(running.data_dir / "admin.token", backup)
    async with fleet(folder / "second") as restored:
        restored.data_dir.mkdir(parents=True)
        run("cp", "-a", backup / "results", backup / "admin.token", restored.data_dir)
        await restored.start_master(*restore(restored.data_dir))
        for task in done:
            assert (await restored.client.get(task)).status == "completed"
        assert [item["number"] async for item in restored.client.results(done[0])] == list(range(ITEMS))
        for task in waiting:
            assert (await restored.client.get(task)).status == "pending"
        assert len(before) > 0
        await restored.start_worker("worker-0")
        # What was answered before the backup is there, and what had not ended by then runs to its end.
        await restored.until_status(before, "completed")
        assert (await restored.client.get(waiting[0])).status == "pending"


@asynccontextmanager
async def _at_work(running: Fleet) -> AsyncIterator[list[str]]:
    """Tasks keep coming; the list grows with what was answered."""
    answered: list[str] = []

    async def submit() -> None:
        while True:
            answered.extend(await running.submit([echo(n) for n in range(10)]))

    busy = asyncio.create_task(submit())
    try:
        await running.until(lambda: len(answered) >= 50, "nothing is taken")
        yield answered
    finally:
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)


def _sqlite(file: Path, statement: str) -> tuple[str | Path, ...]:
    """The shell of SQLite, or Python's for a machine without it."""
    if shell := shutil.which("sqlite3"):
        return (shell, file, statement)
    return (
        sys.executable,
        "-c",
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute(sys.argv[2])",
        file,
        statement,
    )


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{command}: {done.stderr}"
