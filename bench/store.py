"""`make bench`: the durable core beside the raw limit of its database, in one run.

Figures are ratios within the run: the machine is shared and noisy, so ours and the raw loop take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import structlog

from bench.cluster import Cluster, bodies
from bench.raw import RawTable, raw_postgres, raw_sqlite
from bench.seed import seed_finished
from bench.table import Row, print_table, say
from crawlfleet.bootstrap.gc_tuning import tune_collector
from crawlfleet.ports.task_store import Assignment
from crawlfleet.store.engine.migrate import migrate_postgres, migrate_sqlite
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from testkit.servers import PostgresServer

BATCH = 500
PAIRS = 15
CYCLES = 12
LONGEST_TASK_S = 0.5


class Place(NamedTuple):
    """Where a database is opened: called once per store."""

    name: str
    open: Callable[[str], Awaitable[QueryEngine]]
    raw: Callable[[], object]
    cycle_target: float


async def rate(work: Callable[[], Awaitable[object]], times: int, tasks: int = BATCH) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await work()
    return times * tasks / (time.perf_counter() - began)


async def compare(
    ours: Callable[[], Awaitable[object]], other: Callable[[], Awaitable[object]], pairs: int, times: int
) -> tuple[float, float, float]:
    """Medians of both rates and of the ratio within each pair, taken in turns."""
    left, right = [], []
    for number in range(pairs):
        first, second = (ours, other) if number % 2 else (other, ours)
        rates = {id(first): await rate(first, times)}
        rates[id(second)] = await rate(second, times)
        left.append(rates[id(ours)])
        right.append(rates[id(other)])
    ratio = statistics.median(a / b for a, b in zip(left, right, strict=True))
    return statistics.median(left), statistics.median(right), ratio


async def measure_cycle(place: Place, raw: RawTable, rows: list[Row]) -> None:
    cluster = await Cluster.start(await place.open("cycle"))
    batch = bodies(BATCH)

    async def ours() -> None:
        await cluster.cycle(batch)

    async def with_housekeeping() -> None:
        await cluster.cycle(batch)
        await cluster.housekeep()

    async def theirs() -> None:
        await raw.cycle(BATCH)

    async def submit() -> None:
        await cluster.submit(batch)

    async def insert() -> None:
        await raw.insert(BATCH)

    await rate(ours, 4)
    await rate(theirs, 4)
    mine, limit, ratio = await compare(ours, theirs, PAIRS, CYCLES)
    target = place.cycle_target
    rows.append(
        Row(f"{place.name}: full cycle", f"{mine:,.0f}/s, raw {limit:,.0f}/s", f">= {target}x", ratio >= target)
    )
    rows[-1] = rows[-1]._replace(value=f"{ratio:.2f}x raw ({rows[-1].value})")
    mine, limit, ratio = await compare(with_housekeeping, theirs, PAIRS, CYCLES)
    rows.append(Row(f"{place.name}: … with relay and counters", f"{ratio:.2f}x raw ({mine:,.0f}/s)", "", None))
    mine, limit, ratio = await compare(submit, insert, PAIRS, CYCLES)
    rows.append(Row(f"{place.name}: batch submit", f"{ratio:.2f}x raw insert ({mine:,.0f}/s)", "", None))
    await cluster.store.close()


async def measure_history(place: Place, finished: int, rows: list[Row]) -> None:
    fresh, full = await Cluster.start(await place.open("fresh")), await Cluster.start(await place.open("full"))
    say(f"{place.name}: writing {finished:,} finished tasks")
    await seed_finished(full.store, finished)
    batch = bodies(BATCH)

    async def in_full() -> None:
        await full.cycle(batch)

    async def in_fresh() -> None:
        await fresh.cycle(batch)

    await rate(in_full, 6)
    await rate(in_fresh, 6)
    _, _, ratio = await compare(in_full, in_fresh, PAIRS, CYCLES)
    rows.append(
        Row(
            f"{place.name}: cycle over {finished:,} finished",
            f"{ratio:.2f}x of an empty store",
            ">= 0.9x",
            ratio >= 0.9,
        )
    )
    await fresh.store.close()
    await full.store.close()


async def measure_backlog(place: Place, waiting: int, rows: list[Row]) -> None:
    cluster = await Cluster.start(await place.open("backlog"), nodes=100, slots=10)
    before = rss_mb()
    batch = bodies(BATCH, priority=2)
    say(f"{place.name}: submitting {waiting:,} tasks")
    for _ in range(waiting // BATCH):
        await cluster.submit(batch)
        await cluster.housekeep()
    loops = asyncio.create_task(cluster.master.run())
    nodes = asyncio.create_task(_play_nodes(cluster))
    latencies = await _high_priority(cluster, 300)
    used = rss_mb()
    for task in (loops, nodes):
        task.cancel()
    await asyncio.gather(loops, nodes, return_exceptions=True)
    p50, p99 = statistics.median(latencies), statistics.quantiles(latencies, n=100)[98]
    rows.append(
        Row(
            f"{place.name}: {waiting:,} waiting, memory",
            f"{used:,.0f} MB ({used - before:+,.0f})",
            "< 1,024 MB",
            used < 1024,
        )
    )
    rows.append(
        Row(
            f"{place.name}: … new priority 10 assigned",
            f"p50 {p50:.1f} ms, p99 {p99:.1f} ms",
            "p99 < 100 ms",
            p99 < 100,
        )
    )
    await cluster.store.close()


async def _play_nodes(cluster: Cluster) -> None:
    """Tasks take up to half a second, so that all slots are busy and some come free all the time."""
    rng, number = Random(1), count()
    running: list[tuple[float, int, Assignment]] = []
    renewed_at = 0.0
    while True:
        await asyncio.sleep(0.005)
        now = time.perf_counter()
        taken, cluster.store.assigned = cluster.store.assigned, []
        for item in taken:
            heappush(running, (now + rng.uniform(0, LONGEST_TASK_S), next(number), item))
        over: list[Assignment] = []
        while running and running[0][0] <= now:
            over.append(heappop(running)[2])
        await cluster.finish(over)
        if now - renewed_at > 2:
            await cluster.renew()
            renewed_at = now


async def _high_priority(cluster: Cluster, count: int) -> list[float]:
    store, latencies = cluster.store, []
    for _ in range(count):
        answer = await cluster.submit(bodies(1, priority=10))
        committed = time.perf_counter()
        task = answer.items[0].id  # type: ignore[union-attr]
        store.watched.add(task)
        while task not in store.assigned_at:
            if any(item.task == task for item in store.assigned):
                store.assigned_at[task] = committed
            await asyncio.sleep(0.0005)
        latencies.append(max(0.0, store.assigned_at[task] - committed) * 1000)
        await asyncio.sleep(0.02)
    return latencies


def rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@asynccontextmanager
async def sqlite_place(folder: Path) -> AsyncIterator[Place]:
    async def open_store(name: str) -> QueryEngine:
        path = folder / f"{name}.db"
        migrate_sqlite(path)
        return SqliteEngine(path, synchronous="FULL")

    yield Place("SQLite", open_store, lambda: raw_sqlite(folder), 0.3)


@asynccontextmanager
async def postgres_place() -> AsyncIterator[Place]:
    server = PostgresServer(fsync=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"})
    with server:

        async def open_store(_name: str) -> QueryEngine:
            dsn = server.create_database()
            await migrate_postgres(dsn)
            return await PostgresEngine.connect(dsn)

        yield Place("PostgreSQL", open_store, lambda: raw_postgres(server.create_database()), 0.4)


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.store", description=__doc__)
    parser.add_argument("--finished", type=int, default=2_000_000)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--part", choices=("cycle", "backlog", "history"), help="only this (default: all)")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    tune_collector()  # as a master does when it starts
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as name:
        places = []
        if args.only != "postgres":
            places.append(sqlite_place(Path(name)))
        if args.only != "sqlite":
            places.append(postgres_place())
        for opened in places:
            async with opened as place:
                if args.part in (None, "cycle"):
                    say(f"{place.name}: cycle")
                    async with place.raw() as raw:  # type: ignore[attr-defined]
                        await measure_cycle(place, raw, rows)
                if args.part in (None, "backlog"):
                    await measure_backlog(place, args.waiting, rows)
                if args.part in (None, "history"):
                    await measure_history(place, args.finished, rows)
    print_table(rows)


if __name__ == "__main__":
    asyncio.run(main())
