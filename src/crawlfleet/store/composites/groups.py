"""Groups: their rows, their counters by counter deltas, and their members in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sqlalchemy import select

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.group import Group, GroupCounts, GroupKind, is_finished
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import Member, MemberFailure
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.composites.crawls import forget_crawls, shed_urls
from crawlfleet.store.composites.group_membership import GROUPS
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import RecordReader
from crawlfleet.store.schema import task_group
from crawlfleet.store.tasks.transaction_log import OPEN, write_events

GROUPS_AMONG = f"SELECT {GROUPS.select} FROM task_group WHERE id AMONG($1)"
GROUP_TOTALS = (
    "SELECT group_id, status, SUM(n) FROM ("
    "SELECT group_id, status, n FROM group_counter WHERE group_id AMONG($1) UNION ALL "
    "SELECT group_id, status, n FROM group_delta WHERE group_id AMONG($1)) AS c GROUP BY group_id, status"
)
COUNT_MEMBERS = (
    f"SELECT COALESCE(d.status, {OPEN}), COUNT(*) FROM task t LEFT JOIN done d ON d.id = t.id WHERE t.group_id = $1 "
    f"GROUP BY COALESCE(d.status, {OPEN})"
)
# A window of the index first, so that no page reads more members than its limit.
_WINDOW = "(SELECT id FROM task WHERE group_id = $1 AND id > $2 ORDER BY id LIMIT $3)"
_MEMBER = RecordReader(Member)
_MEMBER_VALUES = {
    "task": "w.id",
    "status": "COALESCE(l.status, d.status)",
    "execution": "CASE WHEN d.session IS NULL THEN NULL ELSE d.execution END",
    "result": "{result}",
}
_MEMBERS = (
    f"SELECT {row_codec.sql_values(_MEMBER.names, _MEMBER_VALUES, 'd.')} FROM {_WINDOW} AS w "
    "LEFT JOIN live l ON l.id = w.id LEFT JOIN done d ON d.id = w.id ORDER BY w.id"
)
MEMBERS = _MEMBERS.format(result="d.result")
MEMBERS_WITHOUT_RESULTS = _MEMBERS.format(result="NULL")
WALK_MEMBERS = f"SELECT w.id, l.id FROM {_WINDOW} AS w LEFT JOIN live l ON l.id = w.id ORDER BY w.id"
# The condition lets the database use the partial index that has no completed members.
_NOT_COMPLETED = f"status <> {TaskStatus.COMPLETED:d}"
ENDED_MEMBERS = (
    f"SELECT id FROM done WHERE group_id = $1 AND status = $2 AND {_NOT_COMPLETED} AND id > $3 ORDER BY id LIMIT $4"
)
MEMBER_FAILURES = (
    "SELECT d.id, d.status, COALESCE(e.message, d.reason) FROM done d LEFT JOIN dead_letter e ON e.task = d.id "
    f"WHERE d.group_id = $1 AND d.status = $2 AND d.{_NOT_COMPLETED} ORDER BY d.id LIMIT $3"
)
DELTAS = "SELECT id, group_id FROM group_delta ORDER BY id LIMIT 10000"
TAKE_DELTAS = "DELETE FROM group_delta WHERE id AMONG($1) RETURNING group_id, status, n"
LOCK_SETTLED = "SELECT id, is_closed, finished_at FROM task_group WHERE id AMONG($1) ORDER BY id LOCK_ROWS(task_group)"
FOLDED = "SELECT group_id, status, n FROM group_counter WHERE group_id AMONG($1)"
FORGET_FOLDED = "DELETE FROM group_counter WHERE group_id AMONG($1)"
FINISH = "UPDATE task_group SET finished_at = $2, finishes = finishes + 1 WHERE id AMONG($1)"
CLOSE = "UPDATE task_group SET is_closed = 1 WHERE id = $1"
HAS_MEMBERS = "SELECT id FROM task WHERE group_id = $1 LIMIT 1"
# Groups whose last member was removed by retention, or that no task ever joined. A window first, as above.
OLD_GROUPS = (
    "SELECT w.id, CASE WHEN w.created_at < $3 AND COALESCE(w.finished_at, 0) < $3 "
    "AND NOT EXISTS (SELECT 1 FROM task t WHERE t.group_id = w.id) THEN 1 ELSE 0 END "
    "FROM (SELECT id, created_at, finished_at FROM task_group WHERE id > $1 AND id < $2 ORDER BY id LIMIT $4) AS w "
    "ORDER BY w.id"
)
HOLD_OLD_GROUPS = (
    "SELECT id FROM task_group WHERE id AMONG($1) AND created_at < $2 AND COALESCE(finished_at, 0) < $2 "
    "ORDER BY id LOCK_ROWS(task_group)"
)
STILL_JOINED = "SELECT DISTINCT group_id FROM task WHERE group_id AMONG($1)"
_DELTA_COLUMNS = ("group_id", "status", "n")


class GroupTables:
    _engine: QueryEngine

    async def load_groups(self, ids: Sequence[GroupId]) -> dict[GroupId, Group]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(GROUPS_AMONG, list(ids)))
        return {group.id: group for group in GROUPS.from_rows(rows)}

    async def list_groups(
        self, limit: int, before: GroupId | None = None, project: str | None = None, kind: GroupKind | None = None
    ) -> list[Group]:
        query = select(*GROUPS.selected)
        if before is not None:
            query = query.where(task_group.c.id < before)
        if project is not None:
            query = query.where(task_group.c.project == project)
        if kind is not None:
            query = query.where(task_group.c.kind == int(kind))
        return GROUPS.from_rows(await self._engine.run_query(query.order_by(task_group.c.id.desc()).limit(limit)))

    async def group_counts(self, ids: Sequence[GroupId]) -> dict[GroupId, GroupCounts]:
        return await self._engine.read_by_key(lambda tx: _load_counts(tx, ids))

    async def count_members(self, group: GroupId) -> GroupCounts:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(COUNT_MEMBERS, group))
        return _make_counts(dict(rows))

    async def list_members(
        self, group: GroupId, after: TaskId, limit: int, *, with_results: bool = True
    ) -> list[Member]:
        sql = MEMBERS if with_results else MEMBERS_WITHOUT_RESULTS
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(sql, group, after, limit))
        return _MEMBER.from_rows(rows)

    async def walk_members(self, group: GroupId, after: TaskId, limit: int) -> list[tuple[TaskId, bool]]:
        rows = await self._engine.read(lambda tx: tx.fetch(WALK_MEMBERS, group, after, limit))
        return [(task, live is not None) for task, live in rows]

    async def ended_members(
        self, group: GroupId, statuses: Sequence[TaskStatus], after: TaskId, limit: int
    ) -> list[TaskId]:
        async def read_ended_members(tx: Tx) -> list[TaskId]:
            return [
                row[0] for status in statuses for row in await tx.fetch(ENDED_MEMBERS, group, int(status), after, limit)
            ]

        return sorted(await self._engine.read(read_ended_members))[:limit]

    async def member_failures(self, group: GroupId, limit: int) -> list[MemberFailure]:
        async def read_failures(tx: Tx) -> list[Row]:
            return [
                row
                for status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)
                for row in await tx.fetch(MEMBER_FAILURES, group, int(status), limit)
            ]

        rows = sorted(await self._engine.read_by_key(read_failures))[:limit]
        return [MemberFailure(task, task_rows.STATUSES[status], message) for task, status, message in rows]

    async def close_group(self, group: GroupId) -> bool:
        async def mark_closed(tx: Tx) -> bool:
            is_known = bool(await tx.execute(CLOSE, group))
            if is_known:
                # Nothing moved, but this makes the leader look: a group that is empty is finished by closing it.
                await tx.insert(schema.group_delta, _DELTA_COLUMNS, [(group, OPEN, 0)])
            return is_known

        return await self._engine.write(mark_closed)

    async def remove_group(self, group: GroupId) -> bool:
        async def delete_if_empty(tx: Tx) -> bool:
            await tx.fetch(LOCK_SETTLED, [group])
            if await tx.fetch(HAS_MEMBERS, group) or await shed_urls(tx, [group]):
                return False
            await forget_groups(tx, [group])
            return True

        return await self._engine.write(delete_if_empty)

    async def settle_groups(self, term: int, now: Instant) -> int:
        return await self._engine.write(lambda tx: _fold_deltas(tx, now), term)


async def _fold_deltas(tx: Tx, now: Instant) -> int:
    deltas = await tx.fetch(DELTAS)
    if not deltas:
        return 0
    touched = sorted({group for _, group in deltas})
    # Groups are locked before their deltas, as everywhere: see store.composites.group_membership.
    groups = await tx.fetch(LOCK_SETTLED, touched)
    folded = await tx.fetch(TAKE_DELTAS, [number for number, _ in deltas])
    sums: Counter[tuple[GroupId, int]] = Counter()
    for group, status, n in [*await tx.fetch(FOLDED, touched), *folded]:
        sums[group, status] += n
    await tx.execute(FORGET_FOLDED, touched)
    existing = {row[0] for row in groups}
    rows = [(group, status, n) for (group, status), n in sums.items() if n and group in existing]
    await tx.insert(schema.group_counter, _DELTA_COLUMNS, rows)
    await _finish_groups(tx, groups, now)
    return len(folded)


async def _finish_groups(tx: Tx, groups: Sequence[Row], now: Instant) -> None:
    """Finish the groups whose members have all ended. Deltas written since count too: a group is finished by all that
    is known of it, not only by what was folded."""
    unfinished = {group: bool(is_closed) for group, is_closed, finished_at in groups if finished_at is None}
    counts = await _load_counts(tx, list(unfinished))
    finished = [group for group, is_closed in unfinished.items() if is_finished(counts[group], is_closed)]
    if finished:
        await tx.execute(FINISH, finished, now)
        each = {
            "group": finished,
            "total": [counts[group].total for group in finished],
            **{name: [getattr(counts[group], name) for group in finished] for name in GroupCounts._fields[1:]},
        }
        await write_events(tx, [EventBatch(Kind.GROUP_FINISHED, each)], now)


async def forget_groups(tx: Tx, groups: Sequence[GroupId]) -> None:
    """Delete every trace of groups without members; the caller has locked their rows."""
    ids = list(groups)
    await tx.execute("DELETE FROM group_delta WHERE group_id AMONG($1)", ids)
    await tx.execute(FORGET_FOLDED, ids)
    await forget_crawls(tx, ids)
    await tx.execute("DELETE FROM task_group WHERE id AMONG($1)", ids)


async def find_old_groups(
    tx: Tx, after: GroupId, oldest: GroupId, before: Instant, limit: int
) -> tuple[list[GroupId], GroupId]:
    """Find the due groups among the next ones; also the last one that was looked at (0 when there are no further
    ones)."""
    window = await tx.fetch(OLD_GROUPS, after, oldest, before, limit)
    return [row[0] for row in window if row[1]], window[-1][0] if len(window) == limit else 0


async def forget_old_groups(tx: Tx, due: Sequence[GroupId], before: Instant) -> tuple[int, bool]:
    """Delete due groups; return how many, and whether some are left because their crawls are large."""
    held = [row[0] for row in await tx.fetch(HOLD_OLD_GROUPS, list(due), before)]
    if not held:
        return 0, False
    # A task may have joined between the read and the lock.
    joined = {row[0] for row in await tx.fetch(STILL_JOINED, held)}
    left = await shed_urls(tx, [group for group in held if group not in joined])
    gone = [group for group in held if group not in joined and group not in left]
    await forget_groups(tx, gone)
    return len(gone), bool(left)


async def _load_counts(tx: Tx, ids: Iterable[GroupId]) -> dict[GroupId, GroupCounts]:
    by_status: dict[GroupId, dict[int, int]] = {group: {} for group in ids}
    if by_status:
        for group, status, n in await tx.fetch(GROUP_TOTALS, list(by_status)):
            by_status[group][status] = int(n)
    return {group: _make_counts(counts) for group, counts in by_status.items()}


def _make_counts(by_status: dict[int, int]) -> GroupCounts:
    ends = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED)
    return GroupCounts(by_status.get(OPEN, 0), *(by_status.get(int(status), 0) for status in ends))
