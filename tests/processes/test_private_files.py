"""What masters and agents keep on disk is for their owner alone, whatever the umask; older files are tightened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.fleet import Fleet

OTHERS = 0o077


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """Nothing is withheld from others by the umask, which the processes inherit."""
    had = os.umask(0)
    yield
    os.umask(had)


def _readable_by_others(folder: Path) -> list[str]:
    """Every file and folder that others may read, write or enter; a folder that is closed closes what is in it."""
    found = []
    for each in sorted(folder.iterdir()):
        mode = each.stat().st_mode & 0o777
        if mode & OTHERS:
            found.append(f"{mode:o} {each}")
        if each.is_dir():
            found += _readable_by_others(each)
    return found


async def _run_once(fleet: Fleet, worker: str) -> None:
    await fleet.start_master()
    await fleet.start_worker(worker, "--executors", "tests.integration.execution.executors.user_executors")
    await fleet.until_online(1)
    (task,) = await fleet.submit([{"task_type": "chatters", "parameters": {"lines": 3}}])
    await fleet.until_status([task], "completed")


async def test_files_are_for_their_owner_alone(running: Fleet) -> None:
    await _run_once(running, "worker")
    assert (running.data_dir / "crawlfleet.db-wal").exists()
    assert _readable_by_others(running.data_dir) == []
    assert _readable_by_others(running.folder / "worker") == []


async def test_files_of_an_earlier_start_are_tightened(running: Fleet) -> None:
    await _run_once(running, "worker")
    await running.client.close()
    await running.workers.pop().kill()
    await running.master.kill()
    files = [running.data_dir / name for name in ("crawlfleet.db", "crawlfleet.db-wal", "crawlfleet.db-shm")]
    files.append(running.folder / "worker" / "outbox" / "outcomes-1.log")
    for file in files:
        file.touch()
        file.chmod(0o644)
    folders = [running.data_dir / "results", running.folder / "worker" / "outbox"]
    for folder in folders:
        folder.chmod(0o755)
    await running.start_master()
    worker = await running.start_worker("worker", "--executors", "tests.integration.execution.executors.user_executors")
    await running.until(lambda: "session_opened" in worker.log.read_text(), "the worker is not back")
    assert _readable_by_others(running.data_dir) == []
    assert _readable_by_others(running.folder / "worker") == []
