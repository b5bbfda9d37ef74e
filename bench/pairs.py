"""`python -m bench.pairs BEFORE`: two states of the code beside each other; BEFORE is another checkout of it.

A cluster of each (a master, two agents of 256 slots and their executor processes) is up at the same time, each on a
database of its own, and they take turns with the same work: no-op tasks of 300 bytes over HTTP, from the first submit
to the last done. The figures are medians of the ratios within a pair. Both run with this Python and its packages.

    git worktree add /tmp/before COMMIT
    python -m bench.pairs /tmp/before [--after CHECKOUT] [--pairs 7] [--tasks 40000] [--only sqlite|postgres]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.installation import Installation, installation
from bench.table import Row, print_table, say
from testkit.servers import PostgresServer

NODES, SLOTS = 2, 256
WARM_UP = 5_000
LEAST = 0.9
"""The rate that a state of the code must keep of the one before it."""


class Turn(NamedTuple):
    """What a task cost, in seconds."""

    wall: float
    master: float
    """Processor time, as the others."""
    database: float
    agents: float

    @property
    def processor(self) -> float:
        return self.master + self.database + self.agents


class Side(NamedTuple):
    running: Installation
    server: PostgresServer | None

    async def turn(self, tasks: int) -> Turn:
        before, began = self._used(), time.perf_counter()
        await self.running.cycle_rate(tasks)
        took = time.perf_counter() - began
        return Turn(took / tasks, *((now - then) / tasks for now, then in zip(self._used(), before, strict=True)))

    def _used(self) -> tuple[float, float, float]:
        """By the master, the database's processes, and the agents with what they started."""
        (master,) = (psutil.Process(process.pid) for process in self.running.processes)
        database = [psutil.Process(self.server.pid)] if self.server else []
        database += [child for one in database for child in one.children(recursive=True)]
        return _seconds([master]), _seconds(database), _seconds(master.children(recursive=True))


def _seconds(processes: Sequence[psutil.Process]) -> float:
    times = [one.cpu_times() for one in processes]
    return float(sum(one.user + one.system for one in times))


@asynccontextmanager
async def side(folder: Path, checkout: Path, *, is_postgres: bool) -> AsyncIterator[Side]:
    folder.mkdir()
    async with AsyncExitStack() as stack:
        server = None
        if is_postgres:
            settings = {"shared_buffers": "512MB", "max_wal_size": "4GB"}
            server = stack.enter_context(PostgresServer(fsync=True, settings=settings))
        running = await stack.enter_async_context(
            installation(
                folder / "data",
                server.create_database() if server else None,
                nodes=NODES,
                slots=SLOTS,
                env={"PYTHONPATH": str(checkout / "src")},
            )
        )
        yield Side(running, server)


async def measure(name: str, before: Side, after: Side, pairs: int, tasks: int) -> list[Row]:
    for one in (before, after):
        await one.turn(WARM_UP)
    found: list[tuple[Turn, Turn]] = []
    for number in range(pairs):
        # Whoever goes first may find the machine another way.
        if number % 2:
            new = await after.turn(tasks)
            found.append((await before.turn(tasks), new))
        else:
            old = await before.turn(tasks)
            found.append((old, await after.turn(tasks)))
        old, new = found[-1]
        say(f"{name}, pair {number + 1} of {pairs}: {1 / old.wall:,.0f}/s before, {1 / new.wall:,.0f}/s after")
    return rows(name, found)


def rows(name: str, found: Sequence[tuple[Turn, Turn]]) -> list[Row]:
    ratios = sorted(old.wall / new.wall for old, new in found)
    rate = statistics.median(ratios)
    old_rate, new_rate = (1 / statistics.median(pair[at].wall for pair in found) for at in (0, 1))
    value = f"{rate:.2f}x ({new_rate:,.0f}/s after {old_rate:,.0f}/s; {ratios[0]:.2f}-{ratios[-1]:.2f} in {len(found)})"
    lines = [Row(f"{name}: full cycle over HTTP", value, f">= {LEAST}x", rate >= LEAST)]
    for what in ("master", "database", "agents", "processor"):
        old_s, new_s = ([getattr(pair[at], what) for pair in found] for at in (0, 1))
        if not any(old_s):
            continue
        ratio = statistics.median(new / old for old, new in zip(old_s, new_s, strict=True) if old)
        costs = [statistics.median(each) * 1e6 for each in (new_s, old_s)]
        said = "all of them" if what == "processor" else f"the {what}"
        value = f"{ratio:.2f}x ({costs[0]:.0f} µs after {costs[1]:.0f} µs)"
        lines.append(Row(f"{name}: … processor time of a task, {said}", value, "", None))
    return lines


async def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.pairs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("--after", type=Path, default=Path.cwd())
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--tasks", type=int, default=40_000, help="of one turn, in thousands")
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    said = parser.parse_args()
    table: list[Row] = []
    for name in ("SQLite", "PostgreSQL"):
        is_postgres = name == "PostgreSQL"
        if said.only == ("sqlite" if is_postgres else "postgres"):
            continue
        with tempfile.TemporaryDirectory(prefix="crawlfleet-bench-") as folder:
            root = Path(folder)
            async with (
                side(root / "before", said.before.resolve(), is_postgres=is_postgres) as before,
                side(root / "after", said.after.resolve(), is_postgres=is_postgres) as after,
            ):
                table += await measure(name, before, after, said.pairs, said.tasks)
    print_table(table)


if __name__ == "__main__":
    asyncio.run(main())
