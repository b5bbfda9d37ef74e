"""`python -m bench.masters`: two masters on PostgreSQL and Redis with four agents, beside one master on PostgreSQL."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import asyncpg

from bench.idle_nodes import IdleNodes
from bench.installation import Installation, address, command, served, token_in
from bench.peers import run as peers
from bench.table import Row, print_table, say
from crawlfleet.broker.redis import RedisBroker
from testkit.servers import PostgresServer, RedisServer

AGENTS, SLOTS = 4, 128
PAIRS = 7
TASKS = 10_000
PEER_TASKS = 3_000
WAITING = 100_000
WATCHED_S = 8.0
KILLS = 3
NODES, NODES_S = 1_000, 30.0
PARTS = ("cycle", "leader", "flush", "nodes")
_URGENT = b'{"task_type":"echo","priority":10,"parameters":{}}'
_SLOW = {"task_type": "sleep", "priority": 2, "parameters": {"seconds": 0.1}}


class Masters(Installation):
    """An installation whose masters can be killed and started again."""

    folder: Path
    store: str
    broker: str

    async def leader(self) -> int:
        """The place of the one that leads."""
        connection = await asyncpg.connect(self.store)
        try:
            holder = await connection.fetchval("SELECT holder FROM leader")
        finally:
            await connection.close()
        return int(holder.partition("#")[0].removeprefix("m"))


@asynccontextmanager
async def masters(folder: Path, store: str, broker: str, *, count: int, agents: int) -> AsyncIterator[Masters]:
    folder.mkdir()
    async with AsyncExitStack() as stack:
        urls, processes = [], []
        for number in range(count):
            data_dir = folder / f"m{number}"
            argv = ["--data-dir", str(data_dir), "--port", "0", "--name", f"m{number}", "--store", store]
            argv += ["--results", str(folder / "results")]
            process = stack.enter_context(command(folder / f"m{number}.log", "master", *argv, "--broker", broker))
            urls.append(await address(data_dir, process))
            processes.append(process)
        running = Masters(urls, token_in(folder / "m0"), processes)
        running.folder, running.store, running.broker = folder, store, broker
        token = (await running.post("tokens", {"role": "enrol", "name": "bench"}))["token"]
        for number in range(agents):
            argv = ["--master", ",".join(urls), "--name", f"w{number}", "--slots", str(SLOTS)]
            stack.enter_context(
                command(
                    folder / f"w{number}.log",
                    "worker",
                    *argv,
                    "--data-dir",
                    str(folder / f"w{number}"),
                    env={"CRAWLFLEET_ENROL_TOKEN": token},
                )
            )
        async with served(running, agents):
            yield running


async def measure_cycle(two: Masters, one: Masters, rows: list[Row]) -> None:
    """All take turns: the machine is shared."""
    rates: dict[str, list[float]] = {"two": [], "one": [], "Huey": []}
    with peers.huey() as (enqueue, done):
        await asyncio.to_thread(peers.warm_up, enqueue, done)
        for number in range(PAIRS):
            say(f"full cycle, round {number + 1} of {PAIRS}")
            rates["two"].append(await two.cycle_rate(TASKS))
            rates["one"].append(await one.cycle_rate(TASKS))
            rates["Huey"].append(await asyncio.to_thread(peers.cycle_rate, enqueue, done, PEER_TASKS))
    for peer, what, target in (("one", "one master", 0.8), ("Huey", "Huey", 2.0)):
        ratio = statistics.median(a / b for a, b in zip(rates["two"], rates[peer], strict=True))
        value = f"{ratio:.2f}x ({statistics.median(rates['two']):,.0f}/s beside "
        value += f"{statistics.median(rates[peer]):,.0f}/s)"
        rows.append(Row(f"two masters: full cycle beside {what}", value, f">= {target}x", ratio >= target))


async def measure_leader(two: Masters, stack: AsyncExitStack, rows: list[Row]) -> None:
    """From the kill to the end of a task that was submitted right after it, at the other master."""
    took = []
    for number in range(KILLS):
        say(f"leader kill {number + 1} of {KILLS}")
        place = await two.leader()
        await two.latency_ms()
        two.processes[place].kill()
        began = time.perf_counter()
        two.urls.reverse() if place == 0 else None
        await two.latency_ms()
        took.append(time.perf_counter() - began)
        two.urls.reverse() if place == 0 else None
        await _restart(two, place, stack)
    value = f"{max(took):.1f} s at most, median {statistics.median(took):.1f} s"
    rows.append(Row("a leader killed: until the next task is done", value, "< 5 s", max(took) < 5))


async def _restart(two: Masters, place: int, stack: AsyncExitStack) -> None:
    data_dir = two.folder / f"m{place}"
    (data_dir / "address").unlink()
    port = two.urls[place].rpartition(":")[2]
    argv = ["--data-dir", str(data_dir), "--port", port, "--name", f"m{place}", "--store", two.store]
    argv += ["--results", str(two.folder / "results")]
    process = stack.enter_context(command(two.folder / f"m{place}.log", "master", *argv, "--broker", two.broker))
    two.urls[place] = await address(data_dir, process)
    two.processes[place] = process


async def measure_flush(two: Masters, redis: RedisServer, rows: list[Row]) -> None:
    """While so many wait and are worked on: Redis is emptied, and urgent tasks go on coming."""
    say(f"Redis emptied with {WAITING:,} waiting")
    for _ in range(WAITING // 10_000):
        await two.post("tasks:batch", {"tasks": [_SLOW] * 10_000})
    installation = await _installation(two)
    broker = await RedisBroker.connect(redis.url, installation)
    took: list[float] = []
    gaps: list[float] = []
    try:
        await asyncio.to_thread(redis.flush)
        began = seen = time.perf_counter()
        whole_after, done = None, await two.completed()
        while time.perf_counter() - began < WATCHED_S:
            took.append(await two.latency_ms(_URGENT))
            now, count = time.perf_counter(), await two.completed()
            if count - done > 1:
                gaps.append(now - seen)
                seen, done = now, count
            windows = await broker.ready_index.list_windows()
            if whole_after is None and any(window.size and window.is_deep for window in windows):
                whole_after = time.perf_counter() - began
    finally:
        await broker.close()
    whole = "never" if whole_after is None else f"{whole_after:.1f} s"
    rows.append(
        Row(
            f"Redis emptied, {WAITING:,} waiting: the index is whole after",
            whole,
            "< 5 s",
            whole_after is not None and whole_after < 5,
        )
    )
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    value = f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; longest pause of the others {max(gaps, default=WATCHED_S):.1f} s"
    rows.append(Row("meanwhile, urgent tasks from submit to done", value, "", None))
    await two.post("tasks:cancel", {"filter": {"type": "sleep"}})


async def _installation(two: Masters) -> str:
    connection = await asyncpg.connect(two.store)
    try:
        return str(await connection.fetchval("SELECT value FROM installation WHERE key = 'id'"))
    finally:
        await connection.close()


async def measure_nodes(two: Masters, rows: list[Row]) -> None:
    say(f"{NODES} idle nodes for {NODES_S:.0f} s")
    async with IdleNodes(two.urls, two.token) as nodes:
        await nodes.join(NODES)
        await asyncio.sleep(5)
        nodes.late_ms.clear()
        before, began = two.master_cpu_s(), time.perf_counter()
        await asyncio.sleep(NODES_S)
        share = (two.master_cpu_s() - before) / (time.perf_counter() - began)
        late = nodes.late_ms
        value = f"{share / NODES:.4%} of a core each ({share:.0%} for all), {len(late) / NODES_S:,.0f} syncs/s"
        rows.append(Row(f"{NODES:,} idle nodes at two masters cost", value, "", None))
        p99 = statistics.quantiles(late, n=100)[98]
        value = f"p50 {statistics.median(late):.0f} ms, p99 {p99:.0f} ms; {nodes.failed} failed"
        rows.append(Row("their syncs, beyond the time they asked to be parked", value, "", None))


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.masters", description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="only this")
    args = parser.parse_args()
    parts = {args.part} if args.part else set(PARTS)
    rows: list[Row] = []
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crawlfleet-bench-")))
        server = stack.enter_context(
            PostgresServer(fsync=True, settings={"shared_buffers": "512MB", "max_wal_size": "4GB"})
        )
        redis = stack.enter_context(RedisServer())
        store = server.create_database()
        two = await stack.enter_async_context(masters(folder / "two", store, redis.url, count=2, agents=AGENTS))
        if "cycle" in parts:
            async with masters(folder / "one", server.create_database(), "memory:", count=1, agents=AGENTS) as one:
                await measure_cycle(two, one, rows)
        if "flush" in parts:
            await measure_flush(two, redis, rows)
        if "nodes" in parts:
            await measure_nodes(two, rows)
        if "leader" in parts:
            await measure_leader(two, stack, rows)
    print_table(rows)


if __name__ == "__main__":
    asyncio.run(main())
