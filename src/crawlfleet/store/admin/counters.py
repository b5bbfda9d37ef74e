"""Counters, and the counter deltas that are folded into them."""

from __future__ import annotations

from collections import Counter

from crawlfleet.model.status import TaskStatus
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.lanes import LaneBook

# A delta is taken by deleting it, so that none is folded twice.
TAKE_DELTAS = (
    "DELETE FROM counter_delta WHERE id IN (SELECT id FROM counter_delta ORDER BY id LIMIT 10000) "
    "RETURNING project, status, n"
)
_TOTALS = (
    "SELECT status, SUM(n) FROM (SELECT project, status, n FROM counter UNION ALL "
    "SELECT project, status, n FROM counter_delta) AS c {where} GROUP BY status"
)
_COUNTED = (
    "SELECT status, COUNT(*) FROM (SELECT id, status FROM live UNION ALL SELECT id, status FROM done) AS s "
    "{where} GROUP BY status"
)


class UpkeepTables:
    _engine: Engine
    _lanes: LaneBook

    async def fold_counters(self, term: int) -> int:
        async def fold_deltas(tx: Tx) -> int:
            rows = await tx.fetch(TAKE_DELTAS)
            if not rows:
                return 0
            sums: Counter[tuple[str, int]] = Counter()
            for project, status, n in rows:
                sums[project, status] += n
            keys = sorted(sums)
            await tx.insert_new(schema.counter, ("project", "status", "n"), [(*key, 0) for key in keys])
            for project, status in keys:
                sql = "UPDATE counter SET n = n + $3 WHERE project = $1 AND status = $2"
                await tx.execute(sql, project, status, sums[project, status])
            return len(rows)

        return await self._engine.write(fold_deltas, term)

    async def task_totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        return await self._sum_by_status(_TOTALS, "WHERE project = $1", project)

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        where = "WHERE EXISTS (SELECT 1 FROM task t WHERE t.id = s.id AND t.project = $1)"
        return await self._sum_by_status(_COUNTED, where, project)

    async def _sum_by_status(self, sql: str, where: str, project: str | None) -> dict[TaskStatus, int]:
        text = sql.format(where=where if project is not None else "")
        args = () if project is None else (project,)
        rows = await self._engine.read(lambda tx: tx.fetch(text, *args))
        return {task_rows.STATUSES[status]: int(n) for status, n in rows if n}
