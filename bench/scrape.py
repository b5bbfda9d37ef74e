"""How long a scrape of the installation takes with 1,000 nodes and 50 task types, and what it costs the event loop.

python -m bench.scrape
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from crawlfleet.api.views.installation_metrics import collect_installation_metrics
from crawlfleet.api.views.metrics_scrape import MakeMetrics, Scrape
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.installation_reader import InstallationReader
from crawlfleet.model.node import Measurement
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.store import SqlStore
from testkit.factories import Kit, KitClock

NODES = 1_000
TASK_TYPES = 50
PROJECTS = 300
SCRAPES = 30


class ScrapeFigures(NamedTuple):
    lines: int
    read_ms: float
    """Median time of the reads of the store."""
    scrape_ms: float
    """Median time of a whole scrape, reads included."""
    cpu_ms: float
    """Median processor time of a whole scrape, which other programs on the machine do not change."""
    loop_ms: float
    """Median processor time of a scrape on the event loop; the rest is in threads."""


@asynccontextmanager
async def filled_reader(nodes: int = NODES, types: int = TASK_TYPES, projects: int = PROJECTS) -> AsyncIterator[Filled]:
    """A store with nodes, and tasks of many types and projects, most of them ended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite3"
        migrate_sqlite(path)
        store, second = (SqlStore(SqliteEngine(path, synchronous="OFF")) for _ in range(2))
        try:
            kit = await Kit.open(store, second)
            measured = msgspec.json.encode(Measurement(cpu=0.5, memory=0.4, disk=0.3))
            ready = [await kit.node(cluster=f"cluster-{number % 20}") for number in range(nodes)]
            for node in ready:
                await kit.renew(node, measured)
            for number in range(max(types, projects)):
                lane = await kit.known_lane(f"project-{number % projects}", task_type=f"type-{number % types}")
                runs = await kit.run(ready[number % nodes], 4, lane=lane)
                kit.later(1 + number)
                await kit.complete(*runs[:3])
            while await store.fold_counters(await kit.term()):
                pass
            clock = KitClock(kit)
            configure = Configure(store=store, clock=clock)
            yield Filled(kit, InstallationReader(store=store, clock=clock, configure=configure))
        finally:
            await store.close()
            await second.close()


class Filled(NamedTuple):
    kit: Kit
    reader: InstallationReader


async def measure_scrapes(filled: Filled, scrapes: int = SCRAPES) -> ScrapeFigures:
    read_ms: list[float] = []

    async def read() -> MakeMetrics:
        began = time.perf_counter()
        installation = await filled.reader.read_installation()
        read_ms.append((time.perf_counter() - began) * 1_000)
        return partial(collect_installation_metrics, installation, filled.reader.configure)

    scrape = Scrape(read, KitClock(filled.kit).monotonic)
    scrape_ms, cpu_ms, loop_ms, text = [], [], [], b""
    for _ in range(scrapes):
        # Later than anything is cached.
        filled.kit.later(10_000)
        began, cpu_began, loop_began = time.perf_counter(), time.process_time(), time.thread_time()
        text = (await scrape.render("text/plain")).text
        scrape_ms.append((time.perf_counter() - began) * 1_000)
        cpu_ms.append((time.process_time() - cpu_began) * 1_000)
        loop_ms.append((time.thread_time() - loop_began) * 1_000)
    median = statistics.median
    return ScrapeFigures(text.count(b"\n"), median(read_ms), median(scrape_ms), median(cpu_ms), median(loop_ms))


async def main() -> None:
    async with filled_reader() as filled:
        figures = await measure_scrapes(filled)
    print(f"{NODES} nodes, {TASK_TYPES} types, {PROJECTS} projects: {figures.lines} lines")
    print(f"scrape {figures.scrape_ms:.0f} ms, of it reads {figures.read_ms:.0f} ms")
    print(f"on the event loop {figures.loop_ms:.1f} ms of processor time, in all {figures.cpu_ms:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
