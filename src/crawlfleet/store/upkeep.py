"""Counters by deltas, and retention."""

from __future__ import annotations

from collections import Counter

from crawlfleet.model.evidence import KEEP_MS
from crawlfleet.model.ids import EPOCH_MS
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.upkeep import KEEP_AUDIT_MS, Pruned
from crawlfleet.store import codec, tables
from crawlfleet.store.audit import OLD_AUDIT
from crawlfleet.store.days import forget_days
from crawlfleet.store.evidence import OLD_EVIDENCE
from crawlfleet.store.groups import forget_old_groups
from crawlfleet.store.journal import Journal
from crawlfleet.store.lanes import LaneBook
from crawlfleet.store.products import forget_gone
from crawlfleet.store.schedules import forget_schedules
from crawlfleet.store.tasks import forget
from crawlfleet.store.tokens import forget_enrolments
from crawlfleet.store.tx import Engine, Tx

# Deleting is what takes a delta, so that none is folded twice.
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
# Ids begin with their time, so the key itself finds old tasks; what ended late is passed over and found another day.
# Locked: a person may retry one of them at this moment.
OLD_TASKS = (
    "SELECT id, status, lane, group_id FROM done WHERE id < $1 AND ended_at < $2 ORDER BY id LIMIT $3 LOCK_ROWS(done)"
)
# The log is in order of time: what is old ends where the first young row stands. The newest row stays whatever its
# age, as the next number is counted from it.
OLD_EVENTS = (
    "DELETE FROM event_log WHERE first < COALESCE("
    "(SELECT first FROM event_log WHERE at >= $1 ORDER BY first LIMIT 1), (SELECT MAX(first) FROM event_log))"
)
_TIME_SHIFT = 22


class UpkeepTables:
    _engine: Engine
    _lanes: LaneBook

    async def fold_counters(self, term: int) -> int:
        async def work(tx: Tx) -> int:
            rows = await tx.fetch(TAKE_DELTAS)
            if not rows:
                return 0
            sums: Counter[tuple[str, int]] = Counter()
            for project, status, n in rows:
                sums[project, status] += n
            keys = sorted(sums)
            await tx.insert_new(tables.counter, ("project", "status", "n"), [(*key, 0) for key in keys])
            for project, status in keys:
                sql = "UPDATE counter SET n = n + $3 WHERE project = $1 AND status = $2"
                await tx.execute(sql, project, status, sums[project, status])
            return len(rows)

        return await self._engine.write(work, term)

    async def totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        return await self._by_status(_TOTALS, "WHERE project = $1", project)

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        where = "WHERE EXISTS (SELECT 1 FROM task t WHERE t.id = s.id AND t.project = $1)"
        return await self._by_status(_COUNTED, where, project)

    async def _by_status(self, sql: str, where: str, project: str | None) -> dict[TaskStatus, int]:
        text = sql.format(where=where if project is not None else "")
        args = () if project is None else (project,)
        rows = await self._engine.read(lambda tx: tx.fetch(text, *args))
        return {codec.STATUSES[status]: int(n) for status, n in rows if n}

    async def prune(
        self, term: int, now: Instant, keep_tasks_ms: int, keep_events_ms: int, limit: int,
        *, keep_audit_ms: int = KEEP_AUDIT_MS, keep_gone_ms: int | None = None,
    ) -> Pruned:  # fmt: skip
        async def work(tx: Tx) -> Pruned:
            before = now - keep_tasks_ms
            oldest_id = max(0, before - EPOCH_MS) << _TIME_SHIFT
            rows = await tx.fetch(OLD_TASKS, oldest_id, before, limit)
            tasks = [row[0] for row in rows]
            gone = len(tasks)
            if rows:
                await self._lanes.load(tx, {row[2] for row in rows})
                journal = Journal()
                for (lane, status), count in Counter((row[2], row[1]) for row in rows).items():
                    journal.moved(self._lanes[lane].project, codec.STATUSES[status], None, count)
                for (group, status), count in Counter((row[3], row[1]) for row in rows if row[3] is not None).items():
                    journal.member_moved(group, codec.STATUSES[status], None, count)
                await forget(tx, tasks)
                await journal.write(tx, now)
            gone += await forget_old_groups(tx, oldest_id, before, limit)
            old_events = now - keep_events_ms
            gone += await tx.execute(OLD_EVENTS, old_events)
            gone += await tx.execute("DELETE FROM heartbeat WHERE at < $1", old_events)
            gone += await tx.execute("DELETE FROM idempotency WHERE expires_at <= $1", now)
            gone += await tx.execute(OLD_AUDIT, now - keep_audit_ms, limit)
            gone += await tx.execute(OLD_EVIDENCE, now - KEEP_MS)
            gone += await forget_days(tx, now)
            gone += await forget_enrolments(tx, before, limit)
            gone += await forget_schedules(tx, before, limit, now)
            if keep_gone_ms is not None:
                gone += await forget_gone(tx, now - keep_gone_ms, limit)
            return Pruned(tasks, gone)

        return await self._engine.write(work, term)
