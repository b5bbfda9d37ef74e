"""Memory and open files of every process while it runs: they may not grow with the work done."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psutil

from testkit.chaos.cluster import Cluster
from testkit.violations import Invariant, Violation

EVERY_S = 5.0
WARM_S = 20.0
"""Age at which a process has loaded and opened what it needs."""
GROWTH_BYTES = 96 << 20
GROWTH_FILES = 64
CONNECTIONS_PER_MASTER = 12
"""Number of a master's database connections: its pool, its lock, and one that is being replaced."""


class Sample(NamedTuple):
    """A measurement of one process."""

    at: float
    rss_bytes: int
    files: int


class Resources:
    """The samples of all processes of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
        self.connections: int | None = None

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(EVERY_S)

    async def look_at_the_end(self) -> None:
        self._look()
        self.connections = await self._cluster.count(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crawlfleet'"
        )

    def _look(self) -> None:
        for name, member in self._cluster.members.items():
            for process in member.processes()[:1]:
                try:
                    sample = Sample(time.monotonic(), process.memory_info().rss, process.num_fds())
                except psutil.NoSuchProcess:
                    continue
                self._samples[name, member.runs].append(sample)

    @property
    def largest_bytes(self) -> int:
        return max((sample.rss_bytes for samples in self._samples.values() for sample in samples), default=0)

    def violations(self) -> Iterator[Violation]:
        for (name, run), samples in self._samples.items():
            yield from growth(f"{name} (run {run})", samples)
        limit = CONNECTIONS_PER_MASTER * len(self._cluster.master_names)
        if self.connections is not None and self.connections > limit:
            yield _grown(f"{self.connections} connections to PostgreSQL at the end, more than {limit}")


def growth(name: str, samples: Sequence[Sample]) -> Iterator[Violation]:
    warm = [sample for sample in samples if sample.at - samples[0].at >= WARM_S]
    if len(warm) < 2:
        return
    grown, opened = warm[-1].rss_bytes - warm[0].rss_bytes, warm[-1].files - warm[0].files
    if grown > GROWTH_BYTES:
        yield _grown(f"{name} grew by {grown >> 20} MiB to {warm[-1].rss_bytes >> 20} MiB")
    if opened > GROWTH_FILES:
        yield _grown(f"{name} opened {opened} more files and has {warm[-1].files}")


def _grown(detail: str) -> Violation:
    return Violation(Invariant.RESOURCES_FLAT, detail)
