"""The durable side of the ready index, and what is due."""

from __future__ import annotations

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import LaneId
from crawlfleet.store import tables
from crawlfleet.store.journal import write_events
from crawlfleet.store.tx import Engine, Tx

# Hops from lane to lane over the index: the cost is a few lookups per lane, whatever the number of tasks.
_HOPS = (
    "WITH RECURSIVE hop(lane) AS ("
    "SELECT (SELECT MIN(lane) FROM live WHERE status = 0) "
    "UNION ALL SELECT (SELECT MIN(lane) FROM live WHERE status = 0 AND lane > hop.lane) FROM hop "
    "WHERE hop.lane IS NOT NULL) "
)
READY_LANES = f"{_HOPS}SELECT lane FROM hop WHERE lane IS NOT NULL"
READY_LANE_HEADS = (
    f"{_HOPS}SELECT lane, (SELECT MIN(id) FROM live WHERE status = 0 AND live.lane = hop.lane) FROM hop "
    "WHERE lane IS NOT NULL"
)
PAUSED_QUEUES = "SELECT name FROM queue WHERE is_paused = 1"
READY_HEADS = "SELECT id FROM live WHERE status = 0 AND lane = $1 ORDER BY id LIMIT $2"
DUE = "SELECT id FROM live WHERE due_at IS NOT NULL AND waits = 0 AND due_at <= $1 ORDER BY due_at LIMIT $2"
OVERDUE = "SELECT id FROM live WHERE node <> 0 AND deadline_at <= $1 AND recall = 0 LIMIT $2"


class ReadyTables:
    _engine: Engine

    async def ready_lanes(self) -> list[LaneId]:
        return await self._ids(READY_LANES)

    async def ready_heads(self, lane: LaneId, limit: int) -> list[TaskId]:
        return await self._ids(READY_HEADS, lane, limit)

    async def due(self, now: Instant, limit: int) -> list[TaskId]:
        return await self._ids(DUE, now, limit)

    async def overdue(self, now: Instant, limit: int) -> list[TaskId]:
        return await self._ids(OVERDUE, now, limit)

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        async def work(tx: Tx) -> bool:
            columns = ("name", "is_paused", "changed_at")
            await tx.insert_new(tables.queue, columns, [(queue, 0, now)])
            sql = "UPDATE queue SET is_paused = $2, changed_at = $3 WHERE name = $1 AND is_paused <> $2"
            if await tx.execute(sql, queue, int(is_paused), now) == 0:
                return False
            kind = Kind.QUEUE_PAUSED if is_paused else Kind.QUEUE_RESUMED
            await write_events(tx, [EventBatch(kind, shared={"queue": queue})], now)
            return True

        return await self._engine.write(work)

    async def paused_queues(self) -> set[str]:
        return {row[0] for row in await self._engine.read(lambda tx: tx.fetch(PAUSED_QUEUES))}

    async def _ids(self, sql: str, *args: int) -> list[int]:
        return [row[0] for row in await self._engine.read(lambda tx: tx.fetch(sql, *args))]
