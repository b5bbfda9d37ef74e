"""Figures of the process: the newest are returned at once, and a missing folder is no error."""

import asyncio
import time
from pathlib import Path

from crawlfleet.bootstrap.process_figures import ProcessFigures, measure_disks
from crawlfleet.observe.daily_count import DailyCount
from testkit.patience import promised


def figures_of(folder: Path, losses: DailyCount | None = None) -> ProcessFigures:
    return ProcessFigures("http://127.0.0.1:8000", "redis", {"data": folder}, losses or DailyCount())


def test_memory_and_losses_are_there_without_waiting(tmp_path: Path) -> None:
    losses = DailyCount()
    losses.add_one(time.time_ns() // 1_000_000)
    process = figures_of(tmp_path, losses)
    for _ in range(100):
        process.loop_lag.add_time(7.0)
    figures = process.measure()
    assert (figures.url, figures.broker, figures.broker_losses) == ("http://127.0.0.1:8000", "redis", 1)
    assert figures.loop_lag_p99_ms == 7.0
    assert figures.memory_bytes > 1 << 20
    assert figures.disks == {}, "no disk was looked at yet"


async def test_disks_are_watched(tmp_path: Path) -> None:
    process = figures_of(tmp_path)
    watching = asyncio.create_task(process.watch_disks())
    try:
        async with asyncio.timeout(promised(5)):
            while not process.measure().disks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    finally:
        watching.cancel()
    disk = process.measure().disks["data"]
    assert disk.path == str(tmp_path)
    assert 0 <= disk.free_bytes <= disk.total_bytes


def test_a_folder_that_does_not_exist_is_left_out(tmp_path: Path) -> None:
    assert set(measure_disks({"data": tmp_path, "results": tmp_path / "none"})) == {"data"}
