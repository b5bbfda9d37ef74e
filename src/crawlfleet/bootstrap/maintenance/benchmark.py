"""A benchmark of this machine in a few minutes: crawlfleet's figures as ratios to raw loops on the same database.

A temporary master with two agents takes, places and completes echo tasks, over HTTP as always. Raw loops and crawlfleet
take turns in short rounds, so that a busy machine slows both; the medians of the rounds are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from crawlfleet.bootstrap.maintenance import postgres_programs
from crawlfleet.bootstrap.maintenance.raw_loops import PostgresRawLoop, RawLoop, SqliteRawLoop
from crawlfleet.bootstrap.maintenance.reset import drop_tables
from crawlfleet.bootstrap.serve import ADMIN_TOKEN, MasterProcess
from crawlfleet.bootstrap.standalone import local_agents, run_with_agents
from crawlfleet.client import AsyncClient
from crawlfleet.errors import Conflict
from crawlfleet.settings.master import MasterSettings
from crawlfleet.store.engine.postgres.address import normalise_address

NODES, SLOTS = 2, 32
RAW_S = 1.0
"""Time in seconds of a raw loop in one round."""
SUBMITTED = 2_000
"""Tasks that are submitted and run in one round."""
SUBMIT_BATCH = 500
SINGLES = 20
"""Tasks that are submitted one by one in one round."""
LEAST_ROUNDS = 2
NOISE_LIMIT = 0.3
"""Spread of a raw loop, between the quartiles, above which the machine was too busy for a verdict."""
_ONLINE_S = 60.0
_POLL_S = 0.02
_UNPLACED = {"min_resources": {"crawlfleet-bench": 1}}
"""Requirement that no node has: these tasks are only taken."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison: crawlfleet against its raw loop."""

    name: str
    unit: str
    value: float
    raw: float

    @property
    def ratio(self) -> float:
        return self.value / self.raw


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    store: str
    rounds: int
    took_s: float
    noise: float
    """Largest spread of a raw loop between its quartiles, as a part of its median."""
    figures: tuple[Figure, ...]

    @property
    def is_quiet(self) -> bool:
        return self.noise <= NOISE_LIMIT


async def run_benchmark(seconds: float, store: str | None, on_round: Callable[[int, float], None]) -> BenchmarkReport:
    """Run rounds for that span, at least two; `on_round` receives the number of finished rounds and the elapsed time.

    `store` is the address of an empty PostgreSQL database, which is empty again afterwards; None for a SQLite file in
    a temporary folder.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as name:
        async with _opened_raw_loop(Path(name), store) as raw, _opened_cluster(Path(name), store) as client:
            rounds: list[dict[str, float]] = []
            while len(rounds) < LEAST_ROUNDS or time.monotonic() - began < seconds:
                rounds.append(await _run_round(raw, client))
                on_round(len(rounds), time.monotonic() - began)
    return make_report("sqlite" if store is None else "postgresql", rounds, time.monotonic() - began)


def make_report(store: str, rounds: list[dict[str, float]], took_s: float) -> BenchmarkReport:
    medians = {key: statistics.median(values[key] for values in rounds) for key in rounds[0]}
    noise = max(_spread([values[key] for values in rounds]) for key in medians if key.startswith("raw_"))
    figures = (
        Figure("submit, 500 at once", "tasks/s", medians["submit"], medians["raw_insert"]),
        Figure("submit to completed", "tasks/s", medians["cycle"], medians["raw_move"]),
        Figure("submit one", "ms", medians["single_ms"], medians["raw_commit_ms"]),
    )
    return BenchmarkReport(store, len(rounds), took_s, noise, figures)


def _spread(values: list[float]) -> float:
    """Return the distance of the quartiles as a part of the median; the whole range where there are few values."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    return (high - low) / statistics.median(ordered)


async def _run_round(raw: RawLoop, client: AsyncClient) -> dict[str, float]:
    values = {"raw_insert": await raw.insert_rows(RAW_S)}
    values["submit"] = await _time_submits(client)
    values["raw_move"] = await raw.move_rows(RAW_S)
    values["cycle"] = await _time_cycle(client)
    values["raw_commit_ms"] = await raw.commit_ms(SINGLES)
    values["single_ms"] = await _time_singles(client)
    return values


async def _time_submits(client: AsyncClient) -> float:
    """Return how many tasks are taken in a second; they are cancelled afterwards."""
    began = time.perf_counter()
    ids = await _submit_tasks(client, _UNPLACED)
    rate = SUBMITTED / (time.perf_counter() - began)
    for first in range(0, len(ids), SUBMIT_BATCH):
        await client.cancel_many(ids=ids[first : first + SUBMIT_BATCH])
    return rate


async def _time_cycle(client: AsyncClient) -> float:
    """Return how many tasks go from submission to completion in a second."""
    before = (await client.stats()).by_status.get("completed", 0)
    began = time.perf_counter()
    await _submit_tasks(client, {})

    async def are_completed() -> bool:
        return (await client.stats()).by_status.get("completed", 0) >= before + SUBMITTED

    await _poll_until(are_completed)
    return SUBMITTED / (time.perf_counter() - began)


async def _time_singles(client: AsyncClient) -> float:
    times = []
    for _ in range(SINGLES):
        began = time.perf_counter()
        task = await client.submit("echo", {"n": 1}, min_resources=_UNPLACED["min_resources"])
        times.append(time.perf_counter() - began)
        await client.cancel(task.id)
    return statistics.median(times) * 1000


async def _poll_until(condition: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await condition():
            return
        await asyncio.sleep(_POLL_S)


async def _submit_tasks(client: AsyncClient, fields: Mapping[str, object]) -> list[str]:
    task = {"task_type": "echo", "parameters": {"text": "x" * 150}, **fields}
    ids: list[str] = []
    for _ in range(0, SUBMITTED, SUBMIT_BATCH):
        ids += [item.id for item in await client.submit_batch([task] * SUBMIT_BATCH)]
    return ids


@asynccontextmanager
async def _opened_raw_loop(folder: Path, store: str | None) -> AsyncIterator[RawLoop]:
    loop: RawLoop
    if store is None:
        loop = SqliteRawLoop(folder / "raw.db")
    else:
        async with postgres_programs.connected(store) as connection:
            if await postgres_programs.has_tables(connection):
                raise Conflict("store: the database holds an installation: a benchmark needs an empty database")
        loop = await PostgresRawLoop.open(normalise_address(store))
    try:
        yield loop
    finally:
        await loop.close()


@asynccontextmanager
async def _opened_cluster(folder: Path, store: str | None) -> AsyncIterator[AsyncClient]:
    """Start a master and its agents, and leave nothing behind."""
    data_dir = folder / "fleet"
    settings = MasterSettings(data_dir=data_dir, port=0, log_level="error")
    if store is not None:
        settings = settings.model_copy(update={"store": store})
    process = await MasterProcess.open(settings)
    running = asyncio.create_task(
        run_with_agents(process, local_agents(process, settings, NODES, SLOTS)), name="benchmark"
    )
    try:
        async with AsyncClient(process.url, (data_dir / ADMIN_TOKEN).read_text().strip()) as client:

            async def are_online() -> bool:
                return sum(node.status == "online" for node in await client.nodes()) >= NODES

            async with asyncio.timeout(_ONLINE_S):
                await _poll_until(are_online)
            yield client
    finally:
        process.stop()
        await running
        if store is not None:
            await drop_tables(store)
