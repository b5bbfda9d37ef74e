"""Removal of lanes that no task is in, by two sweeps of one leader that are hours apart.

A sweep walks over all tasks. A lane in which it found none is marked by the first sweep, and removed by the second if
the mark is still there. The time between them is longer than a confirmation of a lane's row is valid (see
`store.tasks.lanes`): a master that adds a task after the second walk passed has confirmed the row after the first
sweep ended, and that cleared the mark. No wall clock is compared with another: each master measures its own spans.

A mark is the term with the number of the sweep, so that the marks of another leader mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.maintenance_store import LanesOfTasks
from crawlfleet.store.engine.transaction import Engine, Tx

LANE_IDS = "SELECT id FROM lane WHERE id > $1 ORDER BY id LIMIT $2"
# One statement, and so one snapshot: a task that moves from one table to the other is in one of them.
LANES_OF_TASKS = (
    "SELECT 0, w.id, w.lane FROM (SELECT id, lane FROM live WHERE id > $1 ORDER BY id LIMIT $2) AS w UNION ALL "
    "SELECT 1, w.id, w.lane FROM (SELECT id, lane FROM done WHERE id > $1 ORDER BY id LIMIT $2) AS w"
)
LOCK_LANES = "SELECT id, unused_mark FROM lane WHERE id AMONG($1) ORDER BY id LOCK_ROWS(lane)"
REMOVE_LANES = "DELETE FROM lane WHERE id AMONG($1)"
# Without tasks its counters are zero and their rows are gone already, unless a counter was wrong.
REMOVE_LANE_COUNTERS = "DELETE FROM lane_counter WHERE lane AMONG($1)"
MARK_LANES = "UPDATE lane SET unused_mark = $2 WHERE id AMONG($1)"
_SWEEP_BITS = 20


class LaneRemovalTables:
    _engine: Engine

    async def lane_ids(self, after: LaneId, limit: int) -> list[LaneId]:
        return [row[0] for row in await self._engine.read(lambda tx: tx.fetch(LANE_IDS, after, limit))]

    async def lanes_of_tasks(self, after: TaskId, limit: int) -> LanesOfTasks:
        rows = await self._engine.read(lambda tx: tx.fetch(LANES_OF_TASKS, after, limit))
        tables: tuple[list[TaskId], list[TaskId]] = ([], [])
        for table, task, _ in rows:
            tables[table].append(task)
        # A table that returned as many rows as the limit is known only up to the last of them.
        last = min((max(tasks) for tasks in tables if len(tasks) == limit), default=0)
        return LanesOfTasks({lane for _, _, lane in rows}, last)

    async def remove_unused_lanes(self, term: int, sweep: int, lanes: Sequence[LaneId]) -> int:
        start = term << _SWEEP_BITS
        mark = start + sweep

        async def remove_marked_lanes(tx: Tx) -> int:
            rows = await tx.fetch(LOCK_LANES, list(lanes))
            unused = [lane for lane, lane_mark in rows if start < lane_mark < mark]
            if unused:
                await tx.execute(REMOVE_LANES, unused)
                await tx.execute(REMOVE_LANE_COUNTERS, unused)
            if others := [lane for lane, lane_mark in rows if not start < lane_mark < mark]:
                await tx.execute(MARK_LANES, others, mark)
            return len(unused)

        return await self._engine.write(remove_marked_lanes, term)
