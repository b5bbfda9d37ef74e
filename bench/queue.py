"""`python -m bench.queue`: an installation over HTTP, with agents in processes of their own, beside Huey and Celery.

Same payload (300 bytes), two worker processes on both sides, from the first enqueue to the last done.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import asyncpg

from bench.installation import BODY, Installation, installation
from bench.peers import run as peers
from bench.raw import RawPostgres, RawSqlite
from bench.table import Row, print_table, say
from bench.task_latency import measure_gaps, measure_raw_gaps
from testkit.servers import PostgresServer

TASKS = 20_000
PEER_TASKS = 4_000
ROUNDS = 5
SLOTS = 256
CALLERS = 4
IDLE_AGENTS = 20
IDLE_S = 20.0
PARTS = ("cycle", "submit", "single", "latency", "idle")
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_LUA = 'wrk.method = "POST"\nwrk.body = [==[%s]==]\nwrk.headers["Content-Type"] = "application/json"\n'


async def measure_cycles(ours: dict[str, Installation], celery: bool, rows: list[Row]) -> None:
    """Ours and the peers take turns: the machine is shared."""
    targets = {"SQLite": 4.0, "PostgreSQL": 3.0}
    rates: dict[str, list[float]] = {name: [] for name in (*ours, "Huey", "Celery")}
    with ExitStack() as stack:
        makers = {"Huey": peers.huey, **({"Celery": peers.celery} if celery else {})}
        others = {name: stack.enter_context(make()) for name, make in makers.items()}
        for enqueue, done in others.values():
            await asyncio.to_thread(peers.warm_up, enqueue, done)
        for number in range(ROUNDS):
            say(f"full cycle, round {number + 1} of {ROUNDS}")
            for name, (enqueue, done) in others.items():
                count = PEER_TASKS if name == "Huey" else PEER_TASKS // 4
                rates[name].append(await asyncio.to_thread(peers.cycle_rate, enqueue, done, count))
            for name, one in ours.items():
                rates[name].append(await one.cycle_rate(TASKS))
    for name in ours:
        ratio = statistics.median(a / b for a, b in zip(rates[name], rates["Huey"], strict=True))
        mine, huey = statistics.median(rates[name]), statistics.median(rates["Huey"])
        value = f"{ratio:.1f}x Huey ({mine:,.0f}/s, Huey {huey:,.0f}/s)"
        rows.append(Row(f"{name}: full cycle over HTTP", value, f">= {targets[name]:.0f}x", ratio >= targets[name]))
    if rates["Celery"]:
        rows.append(Row("Celery: the same cycle", f"{statistics.median(rates['Celery']):,.0f}/s", "", None))


async def measure_submit(name: str, one: Installation, raw: RawSqlite | RawPostgres, rows: list[Row]) -> None:
    ratios, mine = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(10):
            await (raw.copy(1_000) if isinstance(raw, RawPostgres) else raw.insert(1_000))
        limit = 10_000 / (time.perf_counter() - began)
        # Submitting alone is measured: the work itself waits meanwhile.
        await one.post("queues/default:pause")
        mine.append(await one.submit_rate(20_000, CALLERS))
        ratios.append(mine[-1] / limit)
        await one.post("queues/default:resume")
        await one.drained()
    what = "raw insert" if isinstance(raw, RawSqlite) else "COPY"
    ratio = statistics.median(ratios)
    value = f"{ratio:.2f}x {what} ({statistics.median(mine):,.0f}/s)"
    rows.append(Row(f"{name}: durable batch submit over HTTP", value, ">= 0.3x", ratio >= 0.3))


async def measure_single(name: str, one: Installation, folder: Path, rows: list[Row]) -> None:
    """Single durable submits beside an empty route of the same HTTP server, driven by wrk."""
    if shutil.which("wrk") is None:
        rows.append(Row(f"{name}: single submits", "not measured: wrk is not installed", "", None))
        return
    script = folder / "submit.lua"
    script.write_text(_LUA % BODY.decode())
    ratios, mine = [], []
    for _ in range(ROUNDS):
        with _empty_server() as url:
            empty = await asyncio.to_thread(_wrk, url, script, one.token)
        await one.post("queues/default:pause")
        mine.append(await asyncio.to_thread(_wrk, f"{one.url}/api/v1/tasks", script, one.token))
        ratios.append(mine[-1] / empty)
        await one.post("queues/default:resume")
        await one.drained()
    ratio = statistics.median(ratios)
    value = f"{ratio:.2f}x of an empty route ({statistics.median(mine):,.0f}/s)"
    rows.append(Row(f"{name}: single durable submits", value, ">= 0.4x", ratio >= 0.4))


@contextmanager
def _empty_server() -> Iterator[str]:
    argv = [sys.executable, "-m", "bench.empty_server"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def _wrk(url: str, script: Path, token: str) -> float:
    argv = [
        "wrk",
        "-t1",
        "-c64",
        "-d4s",
        "-H",
        f"Authorization: Bearer {token}",
        "-s",
        str(script),
    ]
    said = subprocess.run([*argv, url], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or (found := _RATE.search(said)) is None:
        raise RuntimeError(said)
    return float(found.group(1))


async def measure_latency(folder: Path, ours: dict[str, Installation], rows: list[Row]) -> None:
    await measure_raw_gaps(rows)
    for name, one in ours.items():
        await measure_gaps(name, one, rows)
    # With one node every task finds the same agent, at some moment of its last call.
    folder.mkdir()
    async with installation(folder, None, nodes=1, slots=SLOTS) as one:
        await measure_gaps("SQLite, one node", one, rows)


async def measure_idle(folder: Path, rows: list[Row]) -> None:
    say(f"{IDLE_AGENTS} idle agents for {IDLE_S:.0f} s")
    folder.mkdir()
    async with installation(folder, None, nodes=IDLE_AGENTS, slots=4) as one:
        await asyncio.sleep(5)
        before, began = one.master_cpu_s(), time.perf_counter()
        await asyncio.sleep(IDLE_S)
        share = (one.master_cpu_s() - before) / (time.perf_counter() - began)
    rows.append(Row(f"{IDLE_AGENTS} idle agents cost the master", f"{share:.1%} of a core", "< 3 %", share < 0.03))


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.queue", description=__doc__)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    parser.add_argument("--part", choices=PARTS, help="only this")
    parser.add_argument("--no-celery", action="store_true", help="leave Celery out: it is slow")
    args = parser.parse_args()
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crawlfleet-bench-")))
        ours: dict[str, Installation] = {}
        raws: dict[str, RawSqlite | RawPostgres] = {}
        wants = {"cycle", "submit", "single", "latency"} & ({args.part} if args.part else set(PARTS))
        if wants and args.only != "postgres":
            (folder / "sqlite").mkdir()
            ours["SQLite"] = await stack.enter_async_context(
                installation(folder / "sqlite", None, nodes=2, slots=SLOTS)
            )
            raws["SQLite"] = RawSqlite(folder / "raw.db")
        if wants and args.only != "sqlite":
            server = stack.enter_context(
                PostgresServer(fsync=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"})
            )
            (folder / "postgres").mkdir()
            store = server.create_database()
            ours["PostgreSQL"] = await stack.enter_async_context(
                installation(folder / "postgres", store, nodes=2, slots=SLOTS)
            )
            connection = await asyncpg.connect(server.create_database())
            stack.push_async_callback(connection.close)
            await connection.execute(
                "CREATE TABLE raw (id BIGINT PRIMARY KEY, status INT, node BIGINT, at BIGINT, payload BYTEA)"
            )
            raws["PostgreSQL"] = RawPostgres(connection)
        if "cycle" in wants:
            await measure_cycles(ours, not args.no_celery, rows)
        for name, one in ours.items():
            say(name)
            if "submit" in wants:
                await measure_submit(name, one, raws[name], rows)
            if "single" in wants:
                await measure_single(name, one, folder, rows)
        if "latency" in wants:
            await measure_latency(folder / "one", ours, rows)
    if args.part in (None, "idle"):
        with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as name:
            await measure_idle(Path(name) / "idle", rows)
    print_table(rows)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
