"""Parked tasks: one row for as long as a task is parked, written and removed by its transitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ExecutionStatus
from crawlfleet.model.task import ParkedTask
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.row_codec import RowCodec

NEWS_MS = 5_000
"""Age below which a parked task is not released early: a node parks a task at the instant a host refuses it, and
within this span the leader receives the refusal too."""
EARLY_MS = 1_000

_PARKINGS = RowCodec(schema.parking, ParkedTask)
_COLUMNS = (*_PARKINGS.columns, "task", "at")
_HOST = int(ParkCause.HOST_BACKOFF)
PARKINGS = f"SELECT task, {_PARKINGS.select} FROM parking WHERE task AMONG($1)"
FORGET_PARKINGS = "DELETE FROM parking WHERE task AMONG($1)"
PARKED_TIMES = (
    "SELECT e.task, COUNT(*) FROM execution e JOIN live l ON l.id = e.task AND l.round = e.round "
    f"WHERE e.task AMONG($1) AND e.status = {int(ExecutionStatus.PARKED)} GROUP BY e.task"
)
PARKED_FOR = "SELECT task FROM parking WHERE cause = $1 AND subject = $2 ORDER BY until LIMIT $3"
# Hops from host to host over the index: the cost is a few lookups per host, whatever the number of tasks.
HOSTS_OVER = (
    "WITH RECURSIVE hop(subject) AS ("
    f"SELECT (SELECT MIN(subject) FROM parking WHERE cause = {_HOST}) "
    f"UNION ALL SELECT (SELECT MIN(subject) FROM parking WHERE cause = {_HOST} AND subject > hop.subject) FROM hop "
    "WHERE hop.subject IS NOT NULL) "
    "SELECT subject FROM hop LEFT JOIN host h ON h.name = subject "
    "WHERE subject IS NOT NULL AND COALESCE(h.backoff_until, 0) <= $1"
)
PARKED_LONGER = (
    f"SELECT task FROM parking WHERE cause = {_HOST} AND subject = $1 AND until > $2 AND at <= $3 "
    "ORDER BY until LIMIT $4"
)


class ParkingTables:
    _engine: Engine

    async def parked_tasks(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ParkedTask]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(PARKINGS, list(tasks))) if tasks else ()
        return {task: _PARKINGS.from_row(parking) for task, *parking in rows}

    async def parked_times(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, int]:
        rows = await self._engine.read(lambda tx: tx.fetch(PARKED_TIMES, list(tasks))) if tasks else ()
        return {task: int(times) for task, times in rows}

    async def parked_for(self, cause: ParkCause, subject: str, limit: int) -> list[TaskId]:
        rows = await self._engine.read(lambda tx: tx.fetch(PARKED_FOR, int(cause), subject, limit))
        return [row[0] for row in rows]

    async def parked_in_vain(self, now: Instant, limit: int) -> list[TaskId]:
        async def find_parked(tx: Tx) -> list[TaskId]:
            parked: list[TaskId] = []
            for (host,) in await tx.fetch(HOSTS_OVER, now):
                left = limit - len(parked)
                rows = await tx.fetch(PARKED_LONGER, host, now + EARLY_MS, now - NEWS_MS, left) if left else ()
                parked += [row[0] for row in rows]
            return parked

        return await self._engine.read(find_parked)


async def add_parkings(tx: Tx, parkings: Mapping[TaskId, ParkedTask], now: Instant) -> None:
    rows = [(*_PARKINGS.to_row(parking), task, now) for task, parking in parkings.items()]
    await tx.insert(schema.parking, _COLUMNS, rows)


async def forget_parkings(tx: Tx, tasks: Iterable[TaskId]) -> None:
    await tx.execute(FORGET_PARKINGS, list(tasks))
