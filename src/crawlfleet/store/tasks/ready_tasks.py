"""The durable side of the ready index, and the tasks that are due or overdue."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId, Queue
from crawlfleet.model.status import Recall, TaskStatus
from crawlfleet.ports.queue_store import HeldTask
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.tasks.transaction_log import write_events

_IS_PENDING = f"status = {TaskStatus.PENDING:d}"
# Hops from lane to lane over the index: the cost is a few lookups per lane, whatever the number of tasks.
_HOPS = (
    "WITH RECURSIVE hop(lane) AS ("
    f"SELECT (SELECT MIN(lane) FROM live WHERE {_IS_PENDING}) "
    f"UNION ALL SELECT (SELECT MIN(lane) FROM live WHERE {_IS_PENDING} AND lane > hop.lane) FROM hop "
    "WHERE hop.lane IS NOT NULL)"
)
READY_LANES = f"{_HOPS} SELECT lane FROM hop WHERE lane IS NOT NULL"
READY_LANE_HEADS = (
    f"{_HOPS} SELECT lane, (SELECT MIN(id) FROM live WHERE {_IS_PENDING} AND live.lane = hop.lane) FROM hop "
    "WHERE lane IS NOT NULL"
)
OLDEST_READY = (
    f"{_HOPS}, head(id) AS (SELECT (SELECT MIN(id) FROM live WHERE {_IS_PENDING} AND live.lane = hop.lane) FROM hop "
    "WHERE lane IS NOT NULL) SELECT MIN(l.ready_at) FROM head JOIN live l ON l.id = head.id"
)
# The newest ready task of each lane, for queues that are last in first out.
READY_LANE_ENDS = (
    f"SELECT n.id, (SELECT MAX(id) FROM live WHERE {_IS_PENDING} AND live.lane = n.id) FROM lane n "
    "WHERE n.queue AMONG($1)"
)
QUEUES = "SELECT name, is_paused, is_lifo FROM queue ORDER BY name"
READY_HEADS = f"SELECT id FROM live WHERE {_IS_PENDING} AND lane = $1 ORDER BY id LIMIT $2"
READY_ENDS = f"SELECT id FROM live WHERE {_IS_PENDING} AND lane = $1 ORDER BY id DESC LIMIT $2"
DUE = "SELECT id FROM live WHERE due_at IS NOT NULL AND waits = 0 AND due_at <= $1 ORDER BY due_at LIMIT $2"
# In the order of the index of tasks that nodes hold, which is small however many tasks wait.
OVERDUE = (
    "SELECT node, id FROM live WHERE node <> 0 AND (node, id) > ($3, $4) AND deadline_at <= $1 "
    f"AND recall = {Recall.NONE:d} ORDER BY node, id LIMIT $2"
)
_FIRST_HELD = HeldTask(0, 0)


class ReadyTables:
    _engine: Engine

    async def ready_lanes(self) -> list[LaneId]:
        return await self._read_ids(READY_LANES)

    async def ready_heads(self, lane: LaneId, limit: int) -> list[TaskId]:
        return await self._read_ids(READY_HEADS, lane, limit)

    async def due_tasks(self, now: Instant, limit: int) -> list[TaskId]:
        return await self._read_ids(DUE, now, limit)

    async def overdue_tasks(self, now: Instant, limit: int, after: HeldTask | None = None) -> list[HeldTask]:
        rows = await self._engine.read(lambda tx: tx.fetch(OVERDUE, now, limit, *(after or _FIRST_HELD)))
        return [HeldTask(node, task) for node, task in rows]

    async def ready_ends(self, lane: LaneId, limit: int) -> list[TaskId]:
        return await self._read_ids(READY_ENDS, lane, limit)

    async def ready_parts(
        self, oldest: Sequence[LaneId], newest: Sequence[LaneId], limit: int
    ) -> dict[LaneId, list[TaskId]]:
        async def read_parts(tx: Tx) -> dict[LaneId, list[TaskId]]:
            statements = [*((lane, READY_HEADS) for lane in oldest), *((lane, READY_ENDS) for lane in newest)]
            return {lane: [row[0] for row in await tx.fetch(sql, lane, limit)] for lane, sql in statements}

        return await self._engine.read(read_parts) if oldest or newest else {}

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        kind = Kind.QUEUE_PAUSED if is_paused else Kind.QUEUE_RESUMED
        return await self._set_queue(queue, "is_paused", is_paused, EventBatch(kind, shared={"queue": queue}), now)

    async def set_queue_order(self, queue: str, is_lifo: bool, now: Instant) -> bool:
        shared = {"queue": queue, "order": "lifo" if is_lifo else "fifo"}
        return await self._set_queue(queue, "is_lifo", is_lifo, EventBatch(Kind.QUEUE_CHANGED, shared=shared), now)

    async def paused_queues(self) -> set[str]:
        return {queue.name for queue in await self.list_queues() if queue.is_paused}

    async def list_queues(self) -> list[Queue]:
        return [queue_from_row(row) for row in await self._engine.read_by_key(lambda tx: tx.fetch(QUEUES))]

    async def _set_queue(self, queue: str, column: str, is_set: bool, event: EventBatch, now: Instant) -> bool:
        async def set_column(tx: Tx) -> bool:
            await tx.insert_new(schema.queue, ("name", "is_paused", "changed_at", "is_lifo"), [(queue, 0, now, 0)])
            sql = f"UPDATE queue SET {column} = $2, changed_at = $3 WHERE name = $1 AND {column} <> $2"
            if await tx.execute(sql, queue, int(is_set), now) == 0:
                return False
            await write_events(tx, [event], now)
            return True

        return await self._engine.write(set_column)

    async def _read_ids(self, sql: str, *args: int) -> list[int]:
        return [row[0] for row in await self._engine.read(lambda tx: tx.fetch(sql, *args))]


def queue_from_row(row: Row) -> Queue:
    name, is_paused, is_lifo = row
    return Queue(name, bool(is_paused), bool(is_lifo))
