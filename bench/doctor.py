"""`python -m bench.doctor`: how long the checks of an installation take with 10,000 nodes and a million waiting tasks.

The bound is promised: all checks within two seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from bench.table import say
from crawlfleet.control.explain.doctor.doctor import Doctor
from crawlfleet.model.ids import EPOCH_MS, IdFactory
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.clock import SystemClock
from crawlfleet.ports.node_store import NewNode
from crawlfleet.scheduling.doctor.check_list import CHECKS
from crawlfleet.scheduling.doctor.snapshot import FilePart
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.migrate import known_revisions, migrate_postgres, migrate_sqlite
from crawlfleet.store.engine.postgres.engine import PostgresEngine
from crawlfleet.store.engine.postgres.transaction import PostgresTx
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore
from crawlfleet.version import __version__

BOUND_S = 2.0
ROUNDS = 5
LANES = 200
_FIRST_ID = 1 << 40
_STEP = 1 << 22
_CHUNK = 100_000


async def add_nodes(store: SqlStore, count: int) -> None:
    """Register nodes with sessions: of five kinds, a tenth of them with a browser."""
    clock = SystemClock()
    ids, now, rng = IdFactory(1, clock.now), clock.now(), Random(1)
    decide = task_state_machine.lose_execution("its node began a new session", now, rng)

    async def add_node(number: int) -> None:
        capabilities = (("browser", 1.0),) if number % 10 == 0 else ()
        kind = f"kind{number % 5}"
        description = NodeDescription(f"n{number}", node_type=kind, slots=8, capabilities=capabilities)
        node = ids.new_id()
        await store.register_node(NewNode(node, f"join {node}", f"hash {node}", description), now)
        await store.open_session(node, 8, ["echo"], decide, now)

    for begin in range(0, count, 500):
        await asyncio.gather(*(add_node(number) for number in range(begin, min(count, begin + 500))))


async def add_waiting(store: SqlStore, count: int, lanes: int = LANES) -> None:
    """Add ready tasks in lanes of many projects, with counters as the real path leaves them."""
    known_lanes = [
        Lane.with_id(
            "default", f"project{number % 50}", 1 + number % 10, Requirement("echo", node_type=f"kind{number}")
        )
        for number in range(lanes)
    ]
    await store.ensure_lanes(known_lanes)
    for begin in range(0, count, _CHUNK):
        size = min(_CHUNK, count - begin)
        await store.engine.write(lambda tx, begin=begin, size=size: _insert(tx, known_lanes, begin, size))  # type: ignore[misc]
    in_lane = count // lanes
    for lane in known_lanes:
        await store.engine.write(lambda tx, lane=lane: _count(tx, lane, in_lane))  # type: ignore[misc]


async def _insert(tx: Tx, lanes: list[Lane], begin: int, size: int) -> None:
    cast = "::bigint" if isinstance(tx, PostgresTx) else ""
    cases = " ".join(f"WHEN {number} THEN {lane.id}{cast}" for number, lane in enumerate(lanes))
    numbers = f"WITH RECURSIVE n(i) AS (SELECT {begin} UNION ALL SELECT i + 1 FROM n WHERE i < {begin + size - 1}) "
    await tx.execute(
        "INSERT INTO live (id, status, lane, round, retries, losses, deaths, waits, timeout_s, recall, node, session, "
        f"execution, ready_at) {numbers} SELECT {_FIRST_ID} + i * {_STEP}{cast}, {TaskStatus.PENDING:d}, "
        f"CASE i % {len(lanes)} {cases} END, 1, 0, 0, 0, 0, 300, 0, 0, 0, 0, {EPOCH_MS} FROM n"
    )


async def _count(tx: Tx, lane: Lane, count: int) -> None:
    status = int(TaskStatus.PENDING)
    await tx.execute("INSERT INTO lane_counter (lane, status, n) VALUES ($1, $2, $3)", lane.id, status, count)
    await tx.execute(
        "INSERT INTO counter (project, status, n) VALUES ($1, $2, $3) "
        "ON CONFLICT (project, status) DO UPDATE SET n = counter.n + excluded.n",
        lane.project,
        status,
        count,
    )


def make_doctor(store: SqlStore) -> Doctor:
    revisions = tuple(known_revisions())
    return Doctor(store=store, clock=SystemClock(), read_files=FilePart, version=__version__, revisions=revisions)


async def measure(store: SqlStore, nodes: int, tasks: int) -> float:
    """Fill the store, and return the slowest of some examinations in seconds."""
    await add_nodes(store, nodes)
    await add_waiting(store, tasks)
    doctor, times = make_doctor(store), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        findings = await doctor.examine()
        times.append(time.perf_counter() - began)
        assert {finding.check for finding in findings} == {check.id for check in CHECKS}
        assert any("tasks that no node can ever run" in finding.sentence for finding in findings)
    return max(times)


async def run(store: str, nodes: int, tasks: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        if store == "sqlite":
            path = Path(folder) / "fleet.db"
            migrate_sqlite(path)
            opened = SqlStore(SqliteEngine(path, synchronous="OFF"))
        else:
            await migrate_postgres(store)
            opened = SqlStore(await PostgresEngine.connect(store))
        try:
            slowest = await measure(opened, nodes, tasks)
        finally:
            await opened.close()
    say(f"{store.partition(':')[0]}: {nodes:,} nodes, {tasks:,} waiting: all checks in {slowest:.2f} s (< {BOUND_S} s)")
    return slowest < BOUND_S


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite, or postgresql://... of an empty database")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    options = parser.parse_args()
    return 0 if asyncio.run(run(options.store, options.nodes, options.tasks)) else 1


if __name__ == "__main__":
    sys.exit(main())
