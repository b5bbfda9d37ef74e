"""Fill a store with finished tasks, quickly, by the databases' own means."""

from __future__ import annotations

from crawlfleet.model.ids import EPOCH_MS
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.store.engine.postgres.transaction import PostgresTx
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.store import SqlStore

_FIRST_ID = 1 << 40
_STEP = 1 << 22
_CHUNK = 100_000


async def seed_finished(store: SqlStore, count: int) -> None:
    """Tasks, executions and final rows as the real path leaves them, all older than anything new."""
    lane = Lane.with_id("default", "history", 5, Requirement("echo"))
    await store.ensure_lanes([lane])
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        await store.engine.write(lambda tx, start=start, size=size: _chunk(tx, lane.id, start, size))  # type: ignore[misc]
    await store.engine.write(lambda tx: _count(tx, count))


async def _chunk(tx: Tx, lane: int, start: int, size: int) -> None:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT {start} UNION ALL SELECT i + 1 FROM n WHERE i < {start + size - 1}) "
    task = f"{_FIRST_ID} + i * {_STEP}::bigint" if isinstance(tx, PostgresTx) else f"{_FIRST_ID} + i * {_STEP}"
    blob = "convert_to(repeat('x', 300), 'UTF8')" if isinstance(tx, PostgresTx) else "zeroblob(300)"
    await _insert(tx, numbers, task, f"{EPOCH_MS} + i", blob, lane)


async def _insert(tx: Tx, numbers: str, task: str, at: str, blob: str, lane: int) -> None:
    await tx.execute(
        f"INSERT INTO task (id, project, created_at, parameters) {numbers} "
        f"SELECT {task}, 'history', {at}, {blob} FROM n"
    )
    await tx.execute(
        "INSERT INTO done (id, status, lane, round, retries, losses, deaths, timeout_s, node, execution, assigned_at, "
        f"started_at, ended_at, session) {numbers} "
        f"SELECT {task}, 10, {lane}, 1, 0, 0, 0, 3600, 1, {task} + 1, {at}, {at}, {at}, 1 FROM n"
    )


async def _count(tx: Tx, count: int) -> None:
    await tx.execute("INSERT INTO counter (project, status, n) VALUES ('history', 10, $1)", count)
