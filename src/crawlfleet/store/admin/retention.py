"""Retention: bounded deletes, each in a transaction of its own, which never remove what a live task or group needs.

Due rows are searched by readers, in windows: rows that stay are passed over with a cursor, and hold up neither the
rows behind them nor the writer. A member of a flow, of shards, of a crawl or of a closed group is removed only when
its whole group has been finished for as long: later steps read the results of earlier ones, and the results of shards
are put together at the end. The files of a task are removed after its rows, by a list that is written with the delete
(`chunk_removal`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crawlfleet.model.evidence import KEEP_MS
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import EPOCH_MS, GroupId, TaskId
from crawlfleet.model.installation.retention import KEEP_AUDIT_MS
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.maintenance_store import (
    CompletedResult,
    DueCounts,
    FinishedFilter,
    FinishedPage,
    PruneCursor,
    Pruned,
)
from crawlfleet.store import row_codec, task_rows
from crawlfleet.store.admin.audit import OLD_AUDIT
from crawlfleet.store.admin.evidence import OLD_EVIDENCE
from crawlfleet.store.admin.tokens import forget_enrolments
from crawlfleet.store.composites.groups import find_old_groups, forget_old_groups
from crawlfleet.store.composites.products import forget_gone_products
from crawlfleet.store.composites.schedules import forget_ended_schedules, forget_ticks, has_old_ticks
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.hosts.cookie_jars import OLD_JARS
from crawlfleet.store.projects.daily_quota import forget_days
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.live_tasks import forget_tasks
from crawlfleet.store.tasks.transaction_log import TransactionLog

MAX_BYTES = 32 << 20
"""Limit of the bytes of parameters and results that one transaction deletes: freeing them costs as much as the rows
do."""
EXECUTIONS_PER_TASK = 10
"""Average number of executions per task in one transaction, as a limit."""
_TIME_SHIFT = 22
_CLOCK_MARK = "clock_mark"


class _EndedTask(NamedTuple):
    id: TaskId
    ended_at: Instant
    group_id: GroupId | None


class _HeldTask(NamedTuple):
    id: TaskId
    status: int
    lane: LaneId
    group_id: GroupId | None
    size: int
    """Size of its parameters and its result in bytes."""


_HELD_VALUES = {"size": "COALESCE(LENGTH(d.result), 0) + LENGTH(t.parameters)"}
# Ids begin with their time, so that the primary key finds old tasks.
OLD_TASKS = f"SELECT {', '.join(_EndedTask._fields)} FROM done WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3"
_GROUPS = "SELECT id, kind, is_closed, finished_at FROM task_group WHERE id AMONG($1) ORDER BY id"
LOOK_AT_GROUPS = _GROUPS
HOLD_GROUPS = f"{_GROUPS} LOCK_ROWS(task_group)"
# Locked: a person may retry one of these tasks concurrently.
HOLD_OLD = (
    f"SELECT {row_codec.sql_values(_HeldTask._fields, _HELD_VALUES, 'd.')} "
    "FROM done d JOIN task t ON t.id = d.id WHERE d.id AMONG($1) AND d.ended_at < $2 ORDER BY d.id LOCK_ROWS(d)"
)
WEIGH_EXECUTIONS = (
    "SELECT task, COUNT(*), SUM(COALESCE(LENGTH(result), 0)) FROM execution WHERE task AMONG($1) GROUP BY task"
)
# The log is in order of time: what stands before an old row is old, even if a clock that had jumped wrote another time
# beside it. The newest row stays whatever its age, because the next number is counted from it.
OLD_EVENTS = (
    "DELETE FROM event_log WHERE first <= (SELECT MAX(w.first) FROM "
    "(SELECT first, at FROM event_log ORDER BY first LIMIT $2) AS w WHERE w.at < $1) "
    "AND first < (SELECT first FROM event_log ORDER BY first DESC LIMIT 1)"
)
# Deletes the given number of rows, and those of the same instant as the last of them: at most one for each node.
OLD_HEARTBEATS = (
    "DELETE FROM heartbeat WHERE at < $1 AND at <= COALESCE("
    "(SELECT at FROM heartbeat WHERE at < $1 ORDER BY at LIMIT 1 OFFSET $2 - 1), $1)"
)
OLD_KEYS = (
    "DELETE FROM idempotency WHERE expires_at <= $1 AND key IN "
    "(SELECT key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)"
)
UNREMOVED = "SELECT task FROM chunk_removal ORDER BY task LIMIT $1"
CLOCK_MARK = f"SELECT value FROM installation WHERE key = '{_CLOCK_MARK}'"
MOVE_CLOCK_MARK = f"UPDATE installation SET value = $1 WHERE key = '{_CLOCK_MARK}'"


_UP_TO = "SELECT COUNT(*) FROM (SELECT 1 FROM {rows} LIMIT $2) AS w"
COUNT_DUE = (
    _UP_TO.format(rows="done WHERE ended_at < $1 AND id < $3"),
    _UP_TO.format(rows="event_log WHERE at < $1"),
    _UP_TO.format(rows="heartbeat WHERE at < $1"),
    _UP_TO.format(rows="idempotency WHERE expires_at <= $1"),
    _UP_TO.format(rows="audit WHERE at < $1"),
)
FINISHED = (
    "SELECT w.id, w.ended_at, w.group_id, w.status, n.project, n.task_type FROM "
    "(SELECT id, ended_at, group_id, status, lane FROM done WHERE id > $1 ORDER BY id LIMIT $2) AS w "
    "JOIN lane n ON n.id = w.lane ORDER BY w.id"
)
FINISHED_BY_ID = f"SELECT {', '.join(_EndedTask._fields)} FROM done WHERE id AMONG($1) ORDER BY id"


FINISHED_RESULTS = (
    f"SELECT id, execution, CASE WHEN status = {TaskStatus.COMPLETED:d} THEN metrics END "
    "FROM done WHERE id > $1 ORDER BY id LIMIT $2"
)


class RetentionTables:
    _engine: QueryEngine
    _lanes: LaneBook

    async def prune_rows(
        self,
        term: int,
        now: Instant,
        keep_tasks_ms: int,
        keep_events_ms: int,
        limit: int,
        *,
        keep_audit_ms: int = KEEP_AUDIT_MS,
        keep_gone_ms: int | None = None,
        after: PruneCursor | None = None,
    ) -> Pruned:
        sweep = _Sweep(self._engine, self._lanes, term, now, now - keep_tasks_ms, limit)
        cursor = after or PruneCursor()
        tasks, last_task = await sweep.prune_tasks(cursor.task)
        last_group = await sweep.prune_groups(cursor.group)
        old_events = now - keep_events_ms
        await sweep.delete_rows(OLD_EVENTS, old_events)
        await sweep.delete_rows(OLD_HEARTBEATS, old_events)
        await sweep.delete_rows(OLD_KEYS, now)
        await sweep.delete_rows(OLD_AUDIT, now - keep_audit_ms)
        await sweep.delete_rows(OLD_EVIDENCE, now - KEEP_MS)
        await sweep.delete_rows(OLD_JARS, now - keep_tasks_ms)
        await sweep.prune_other_rows(keep_gone_ms)
        return Pruned(tasks, sweep.rows, PruneCursor(last_task, last_group), sweep.is_more)

    async def count_due(
        self, now: Instant, keep_tasks_ms: int, keep_events_ms: int, keep_audit_ms: int, limit: int
    ) -> DueCounts:
        before, old_events = now - keep_tasks_ms, now - keep_events_ms
        instants = (before, old_events, old_events, now, now - keep_audit_ms)

        async def count_rows(tx: Tx) -> DueCounts:
            counts = []
            for sql, instant in zip(COUNT_DUE, instants, strict=True):
                args = (_oldest_id(before),) if "$3" in sql else ()
                counts.append(int((await tx.fetch(sql, instant, limit, *args))[0][0]))
            return DueCounts(*counts)

        return await self._engine.browse_rows(count_rows)

    async def select_finished(self, wanted: FinishedFilter, after: TaskId, limit: int) -> FinishedPage:
        async def select_tasks(tx: Tx) -> FinishedPage:
            rows = await tx.fetch(FINISHED, after, limit)
            selected = [
                _EndedTask(task, ended_at, group_id)
                for task, ended_at, group_id, status, project, task_type in rows
                if ended_at < wanted.before
                and status in wanted.statuses
                and wanted.project in (None, project)
                and wanted.task_type in (None, task_type)
            ]
            free = await _not_needed(tx, selected, wanted.before, LOOK_AT_GROUPS)
            last = rows[-1][0] if len(rows) == limit else 0
            return FinishedPage([task.id for task in free], len(selected) - len(free), len(rows), last)

        return await self._engine.browse_rows(select_tasks)

    async def remove_finished(self, term: int, now: Instant, before: Instant, tasks: Sequence[TaskId]) -> list[TaskId]:
        sweep = _Sweep(self._engine, self._lanes, term, now, before, len(tasks))
        return await sweep.remove_tasks(tasks)

    async def tasks_without_row(self, tasks: Sequence[TaskId]) -> set[TaskId]:
        sql = "SELECT id FROM task WHERE id AMONG($1)"
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(sql, list(tasks)))
        return set(tasks) - {row[0] for row in rows}

    async def finished_results(self, after: TaskId, limit: int) -> list[CompletedResult]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(FINISHED_RESULTS, after, limit))
        return [CompletedResult._make(row) for row in rows]

    async def unremoved_chunks(self, limit: int) -> list[TaskId]:
        return [row[0] for row in await self._engine.read(lambda tx: tx.fetch(UNREMOVED, limit))]

    async def mark_chunks_removed(self, term: int, tasks: Sequence[TaskId]) -> None:
        sql = "DELETE FROM chunk_removal WHERE task AMONG($1)"
        await self._engine.write(lambda tx: tx.execute(sql, list(tasks)), term)

    async def clock_mark(self) -> Instant | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(CLOCK_MARK))
        return int(rows[0][0]) if rows else None

    async def set_clock_mark(self, term: int, at: Instant) -> None:
        async def write_mark(tx: Tx) -> None:
            if not await tx.execute(MOVE_CLOCK_MARK, str(at)):
                sql = "INSERT INTO installation (key, value) VALUES ($1, $2)"
                await tx.execute(sql, _CLOCK_MARK, str(at))

        await self._engine.write(write_mark, term)

    async def database_clock(self) -> Instant | None:
        return await self._engine.wall_clock()


class _Sweep:
    """One pass over all tables: it counts the deleted rows, and notes whether a limit ended one of its steps."""

    def __init__(
        self, engine: QueryEngine, lanes: LaneBook, term: int, now: Instant, before: Instant, limit: int
    ) -> None:
        self._engine = engine
        self._lanes = lanes
        self._term = term
        self._now = now
        self._before = before
        self._oldest_id = _oldest_id(before)
        self._limit = limit
        self.rows = 0
        self.is_more = False

    async def prune_tasks(self, after: TaskId) -> tuple[list[TaskId], TaskId]:
        """Delete due tasks; return their ids, and the last id that was looked at (0 when there are no further ones)."""

        async def find_due(tx: Tx) -> tuple[list[_EndedTask], list[_EndedTask]]:
            window = [_EndedTask._make(row) for row in await tx.fetch(OLD_TASKS, after, self._oldest_id, self._limit)]
            due = [task for task in window if task.ended_at < self._before]
            return window, await _not_needed(tx, due, self._before, LOOK_AT_GROUPS)

        window, due = await self._engine.read(find_due)
        last = window[-1].id if len(window) == self._limit else 0
        gone: list[TaskId] = []
        if due:
            gone, is_cut = await self._engine.write(lambda tx: self._forget_tasks(tx, due), self._term)
            if is_cut:
                last = gone[-1]
        self.rows += len(gone)
        self.is_more |= last != 0
        return gone, last

    async def remove_tasks(self, tasks: Sequence[TaskId]) -> list[TaskId]:
        """Delete those of the tasks that are old enough and not needed, in as many transactions as they take."""
        gone: list[TaskId] = []
        left = list(tasks)
        while left:
            due = [_EndedTask._make(row) for row in await self._read_rows(FINISHED_BY_ID, left)]
            removed, is_cut = await self._engine.write(lambda tx, due=due: self._forget_tasks(tx, due), self._term)  # type: ignore[misc]
            gone += removed
            left = [task for task in left if task > removed[-1]] if is_cut else []
        return gone

    async def _read_rows(self, sql: str, ids: Sequence[TaskId]) -> Sequence[Row]:
        return await self._engine.read(lambda tx: tx.fetch(sql, list(ids)))

    async def _forget_tasks(self, tx: Tx, due: Sequence[_EndedTask]) -> tuple[list[TaskId], bool]:
        # Groups are locked before their members, as everywhere: a flow that is resumed concurrently is not due any
        # more.
        due = await _not_needed(tx, due, self._before, HOLD_GROUPS)
        held = await tx.fetch(HOLD_OLD, [task.id for task in due], self._before) if due else []
        if not held:
            return [], False
        bounded = await self._limit_tasks(tx, list(map(_HeldTask._make, held)))
        tasks = [task.id for task in bounded]
        await self._lanes.load_lanes(tx, {task.lane for task in bounded})
        tx_log = TransactionLog()
        for (lane, status), count in Counter((task.lane, task.status) for task in bounded).items():
            tx_log.count_transition(lane, task_rows.STATUSES[status], None, count)
        for (group, status), count in Counter((task.group_id, task.status) for task in bounded).items():
            if group is not None:
                tx_log.count_member(group, task_rows.STATUSES[status], None, count)
        await forget_tasks(tx, tasks)
        await tx_log.write_log(tx, self._now)
        return tasks, len(bounded) < len(held)

    async def _limit_tasks(self, tx: Tx, held: Sequence[_HeldTask]) -> list[_HeldTask]:
        """Return the first of these tasks that fit into one transaction; at least one."""
        weighed = await tx.fetch(WEIGH_EXECUTIONS, [task.id for task in held])
        weights = {task: (count, int(weight)) for task, count, weight in weighed}
        fitting: list[_HeldTask] = []
        size = executions = 0
        for task in held:
            count, weight = weights.get(task.id, (0, 0))
            size += task.size + weight
            executions += count
            is_too_much = size > MAX_BYTES or executions > EXECUTIONS_PER_TASK * self._limit
            if fitting and is_too_much:
                break
            fitting.append(task)
        return fitting

    async def prune_groups(self, after: GroupId) -> GroupId:
        """Delete due groups; return the last group that was looked at (0 when there are no further ones)."""
        due, last = await self._engine.read(
            lambda tx: find_old_groups(tx, after, self._oldest_id, self._before, self._limit)
        )
        if due:
            gone, is_cut = await self._engine.write(lambda tx: forget_old_groups(tx, due, self._before), self._term)
            self.rows += gone
            self.is_more |= is_cut
        self.is_more |= last != 0
        return last

    async def prune_other_rows(self, keep_gone_ms: int | None) -> None:
        term, limit = self._term, self._limit
        self._count_rows(await self._engine.write(lambda tx: forget_days(tx, self._now, limit), term))
        self._count_rows(await self._engine.write(lambda tx: forget_enrolments(tx, self._before, limit), term))
        if await self._engine.read(lambda tx: has_old_ticks(tx, self._before)):
            self._count_rows(await self._engine.write(lambda tx: forget_ticks(tx, self._before, limit), term))
        self._count_rows(
            await self._engine.write(lambda tx: forget_ended_schedules(tx, self._before, limit, self._now), term)
        )
        if keep_gone_ms is not None:
            gone_before = self._now - keep_gone_ms
            gone, is_more = await self._engine.write(lambda tx: forget_gone_products(tx, gone_before, limit), term)
            self.rows += gone
            self.is_more |= is_more

    async def delete_rows(self, sql: str, before: Instant) -> None:
        self._count_rows(await self._engine.write(lambda tx: tx.execute(sql, before, self._limit), self._term))

    def _count_rows(self, gone: int) -> None:
        self.rows += gone
        self.is_more |= gone >= self._limit


def _oldest_id(before: Instant) -> TaskId:
    """Return the id below which tasks were submitted before that instant."""
    return max(0, before - EPOCH_MS) << _TIME_SHIFT


async def _not_needed(tx: Tx, tasks: Sequence[_EndedTask], before: Instant, sql: str) -> list[_EndedTask]:
    """Select the tasks that their group does not need."""
    groups = sorted({task.group_id for task in tasks if task.group_id is not None})
    needed = _needing_groups(await tx.fetch(sql, groups), before) if groups else set()
    return [task for task in tasks if task.group_id not in needed]


def _needing_groups(groups: Iterable[Row], before: Instant) -> set[GroupId]:
    """Select the groups that need their members: flows, shards, crawls and closed groups that have not been finished
    for long enough. A group that tasks may still join is only a name for its members, which grow old one by one."""
    return {
        group
        for group, kind, is_closed, finished_at in groups
        if (kind != GroupKind.GROUP or is_closed) and (finished_at is None or finished_at >= before)
    }
