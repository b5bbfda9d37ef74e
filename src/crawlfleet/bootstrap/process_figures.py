"""Figures of the process of a master: how late its event loop runs, its memory, and the disks of its folders."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from crawlfleet.model.installation.master import DiskFigures, MasterFigures
from crawlfleet.observe.daily_count import DailyCount
from crawlfleet.observe.recent_times import RecentTimes

DISKS_EVERY_S = 5.0


class ProcessFigures:
    """Keeps what is measured of the process; `measure` returns the newest figures without waiting."""

    def __init__(self, url: str, broker: str, folders: Mapping[str, Path], broker_losses: DailyCount) -> None:
        self._url = url
        self._broker = broker
        self._folders = folders
        self._broker_losses = broker_losses
        self._process = psutil.Process()
        self.loop_lag = RecentTimes()
        """How late the event loop ran a timer, in milliseconds."""
        self._disks: dict[str, DiskFigures] = {}

    def measure(self) -> MasterFigures:
        return MasterFigures(
            url=self._url,
            loop_lag_p99_ms=self.loop_lag.p99,
            broker=self._broker,
            broker_losses=self._broker_losses.count_today(time.time_ns() // 1_000_000),
            memory_bytes=self._process.memory_info().rss,
            disks=dict(self._disks),
        )

    async def watch_disks(self) -> None:
        """Measure the disks until cancelled."""
        while True:
            # In a thread: a network file system may not answer.
            self._disks = await asyncio.to_thread(measure_disks, self._folders)
            await asyncio.sleep(DISKS_EVERY_S)


def measure_disks(folders: Mapping[str, Path]) -> dict[str, DiskFigures]:
    """Measure the disks of the folders that exist."""
    disks: dict[str, DiskFigures] = {}
    for name, folder in folders.items():
        with contextlib.suppress(FileNotFoundError):
            usage = shutil.disk_usage(folder)
            disks[name] = DiskFigures(str(folder), usage.total, usage.free)
    return disks
