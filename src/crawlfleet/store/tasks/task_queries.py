"""Queries of tasks for people: built with SQLAlchemy Core, once for both databases.

A task is in `live` or in `done`; the page is walked by id, newest first, from whichever table the filter makes small.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal_column, null, or_, select

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.model.status import FINAL_STATUSES, TaskStatus
from crawlfleet.model.task import DeadLetter, DeadLetterGroup, TaskRecord
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.task_store import TaskFilter, TaskPage
from crawlfleet.store import task_rows
from crawlfleet.store.engine.sqlalchemy_query import PAGE_BYTES, QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import Format, RecordReader
from crawlfleet.store.schema import dead_letter, dependency, done, lane, live, task
from crawlfleet.store.tasks import task_search

ENDED_OF_TASK = (
    f"SELECT {', '.join(task_rows.EXECUTION_COLUMNS)} FROM execution WHERE task = $1 "
    f"UNION ALL {task_rows.kept_in_done('id = $1')}"
)
# Only the last executions of a task that was retried very often: this is read wherever a task is shown.
NEWEST_ENDED = f"SELECT * FROM ({ENDED_OF_TASK}) AS attempts ORDER BY id DESC LIMIT 100"
ENDED_AMONG = f"SELECT * FROM ({ENDED_OF_TASK}) AS attempts WHERE id AMONG($2)"
ENDED_SIZES = (
    "SELECT id, 256 + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(metrics), 0) "
    f"FROM ({ENDED_OF_TASK}) AS attempts WHERE id > $2 ORDER BY id LIMIT $3"
)
LIVE_OF_TASK = (
    "SELECT execution, id, round, retries, node, session, assigned_at, started_at FROM live WHERE id = $1 AND node <> 0"
)
_FINAL = frozenset(FINAL_STATUSES)
_ZERO: ColumnElement[int] = literal_column("0")
_FEW = 50
_RECORDS = RecordReader(
    TaskRecord,
    {
        "parameters": Format(read=lambda body: b"" if body is None else bytes(body)),
        "node": Format(read=lambda node: node or None),
        "execution": Format(read=lambda execution: execution or None),
    },
)
_LETTER_GROUPS = RecordReader(DeadLetterGroup)
_PARAMETERS = _RECORDS.names.index("parameters")
"""Position of the parameters among the columns of a record."""


class ReadTables:
    _engine: QueryEngine

    async def load_tasks(self, ids: Sequence[TaskId], *, with_parameters: bool = True) -> dict[TaskId, TaskRecord]:
        if not ids:
            return {}
        look = self._engine.read_by_key if len(ids) <= _FEW else self._engine.read
        sql = RECORDS_AMONG if with_parameters else RECORDS_WITHOUT_PARAMETERS
        rows = await look(lambda tx: tx.fetch(sql, list(ids)))
        return {row[0]: _RECORDS.from_row(row) for row in rows}

    async def list_tasks(self, where: TaskFilter, limit: int, before: TaskId | None = None) -> list[TaskRecord]:
        query = _apply_filter(_select_records(_walked_statuses(where)), where)
        if before is not None:
            query = query.where(task.c.id < before)
        rows = await self._engine.run_query(query.order_by(task.c.id.desc()).limit(limit))
        return [_RECORDS.from_row(row) for row in rows]

    async def find_tasks(
        self,
        where: TaskFilter,
        limit: int,
        before: TaskId | None = None,
        text: str | None = None,
        *,
        with_parameters: bool = False,
    ) -> TaskPage:
        ids = task_search.id_range(text)
        about = text if ids is None else None
        query = _apply_filter(
            _select_records(_walked_statuses(where), with_parameters=with_parameters or about is not None), where
        )
        stop = (
            await self._search_end(where, before, about) if ids is None and task_search.is_search(where, text) else None
        )
        if ids is not None:
            query = query.where(task.c.id.between(*ids))
        if about is not None:
            query = query.where(task_search.mentions_text(about))
        if stop is not None:
            query = query.where(task.c.id > stop)
        if before is not None:
            query = query.where(task.c.id < before)
        reduce_row = _whole_row if with_parameters else _without_parameters
        page = await self._engine.read_page(
            query.order_by(task.c.id.desc()).limit(limit + 1 if about is None else task_search.ROWS),
            limit,
            sift=None if about is None else task_search.make_sift(about, _RECORDS.from_row, reduce_row),
        )
        records = [_RECORDS.from_row(row) for row in page.rows]
        if page.has_more:
            return TaskPage(records, records[-1].id)
        return TaskPage(records, None) if stop is None else TaskPage(records, stop + 1, stop)

    async def _search_end(self, where: TaskFilter, before: TaskId | None, about: str | None) -> TaskId | None:
        """Return the first id that a search does not look at; None when it reaches the end."""
        query = task_search.select_walked_ids(where)
        (walked,) = query.selected_columns
        if before is not None:
            query = query.where(walked < before)
        query = query.order_by(walked.desc())
        if about is None:
            rows = await self._engine.run_query(query.offset(task_search.ROWS).limit(1))
            return rows[0][0] if rows else None
        window = query.limit(task_search.ROWS + 1).subquery()
        sizes = (
            select(window.c.id, func.length(task.c.parameters))
            .select_from(window.join(task, task.c.id == window.c.id))
            .order_by(window.c.id.desc())
        )
        return task_search.search_end(await self._engine.run_query(sizes))

    async def task_executions(self, task: TaskId) -> list[ExecutionRecord]:
        async def read_executions(tx: Tx) -> tuple[Sequence[Row], Sequence[Row]]:
            # In this order an execution that ends between the two reads is seen by both, never by none.
            return await tx.fetch(LIVE_OF_TASK, task), await tx.fetch(NEWEST_ENDED, task)

        return _oldest_first(*await self._engine.read_by_key(read_executions))

    async def execution_page(self, task: TaskId, limit: int, after: ExecutionId = 0) -> RecordPage[ExecutionRecord]:
        async def read_page(tx: Tx) -> RecordPage[ExecutionRecord]:
            running = [row for row in await tx.fetch(LIVE_OF_TASK, task) if row[0] > after]
            left = PAGE_BYTES
            fitting: list[ExecutionId] = []
            sizes = await tx.fetch(ENDED_SIZES, task, after, limit + 1)
            for execution, size in sizes:
                left -= size
                if fitting and (left < 0 or len(fitting) == limit):
                    break
                fitting.append(execution)
            ended = await tx.fetch(ENDED_AMONG, task, fitting) if fitting else ()
            is_whole = len(fitting) == len(sizes)
            records = _oldest_first(running if is_whole else (), ended)
            return RecordPage(records, has_more=not is_whole)

        return await self._engine.browse_rows(read_page)

    async def awaited_parents(self, task: TaskId) -> dict[TaskId, TaskStatus | None]:
        child = live.alias("child")
        query = (
            select(dependency.c.parent, live.c.status)
            .select_from(
                dependency.join(child, child.c.id == dependency.c.child).outerjoin(
                    live, live.c.id == dependency.c.parent
                )
            )
            .where(dependency.c.child == task, child.c.waits > 0)
        )
        rows = await self._engine.run_query(query)
        return {parent: None if status is None else task_rows.STATUSES[status] for parent, status in rows}

    async def dead_letters(
        self, limit: int, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]:
        query = select(*(dead_letter.c[name] for name in task_rows.DEAD_LETTER_COLUMNS))
        if before is not None:
            query = query.where(dead_letter.c.task < before)
        if cause is not None:
            query = query.where(dead_letter.c.cause == cause)
        if project is not None:
            query = query.where(dead_letter.c.project == project)
        rows = await self._engine.run_query(query.order_by(dead_letter.c.task.desc()).limit(limit))
        return [task_rows.dead_letter_from_row(row) for row in rows]

    async def dead_letter_groups(self, project: str | None = None) -> list[DeadLetterGroup]:
        letters = dead_letter.c
        by_field: dict[str, ColumnElement[Any]] = {
            "cause": letters.cause,
            "count": func.count(),
            "newest_at": func.max(letters.buried_at),
            "example": func.max(letters.task),
        }
        query = select(*(by_field[name] for name in _LETTER_GROUPS.names))
        if project is not None:
            query = query.where(letters.project == project)
        rows = await self._engine.run_query(query.group_by(letters.cause).order_by(func.count().desc(), letters.cause))
        return _LETTER_GROUPS.from_rows(rows)


def _walked_statuses(where: TaskFilter) -> Sequence[TaskStatus]:
    """Return the statuses that choose the table to walk; none for a group, whose tasks are few enough to walk whatever
    their status."""
    return () if where.group is not None else where.statuses


def _select_records(statuses: Sequence[TaskStatus] = (), *, with_parameters: bool = True) -> Select[Any]:
    both = task.outerjoin(live, live.c.id == task.c.id).outerjoin(done, done.c.id == task.c.id)
    # With a status in the filter, an inner join lets the database walk the smaller table.
    if statuses and not _FINAL.intersection(statuses):
        both = live.join(task, live.c.id == task.c.id).outerjoin(done, done.c.id == task.c.id)
    elif statuses and _FINAL.issuperset(statuses):
        both = done.join(task, done.c.id == task.c.id).outerjoin(live, live.c.id == task.c.id)

    def live_or_done(name: str) -> Any:
        return func.coalesce(live.c[name], done.c[name])

    stands_in = lane.c.id == live_or_done("lane")
    by_field: dict[str, ColumnElement[Any]] = {
        "parameters": task.c.parameters if with_parameters else null(),
        "waits": func.coalesce(live.c.waits, _ZERO),
        "recall": func.coalesce(live.c.recall, _ZERO),
        "lane": live_or_done("lane"),
        "group": task.c.group_id,
    }
    by_field |= {name: task.c[name] for name in ("id", "project", "workflow", "name", "created_at", "spec")}
    by_field |= {name: lane.c[name] for name in ("task_type", "queue", "priority")}
    by_field |= {name: live_or_done(name) for name in ("status", "round", "retries", "losses", "deaths", "timeout_s")}
    by_field |= {name: live_or_done(name) for name in ("node", "execution", "assigned_at", "started_at")}
    by_field |= {"due_at": live.c.due_at, "ended_at": done.c.ended_at, "reason": done.c.reason}
    return select(*(by_field[name] for name in _RECORDS.names)).select_from(both.join(lane, stands_in))


# The same SQL on both databases, built once: building it costs more than running it.
RECORDS_AMONG = f"{_select_records()} WHERE task.id AMONG($1)"
RECORDS_WITHOUT_PARAMETERS = f"{_select_records(with_parameters=False)} WHERE task.id AMONG($1)"


def _apply_filter(query: Select[Any], where: TaskFilter) -> Select[Any]:
    if where.statuses:
        wanted = [int(status) for status in where.statuses]
        query = query.where(or_(live.c.status.in_(wanted), done.c.status.in_(wanted)))
    if where.group is not None:
        query = query.where(task.c.group_id == where.group)
    if where.project is not None:
        query = query.where(task.c.project == where.project)
    if where.workflow is not None:
        query = query.where(task.c.workflow == where.workflow)
    if where.task_type is not None:
        query = query.where(lane.c.task_type == where.task_type)
    if where.queue is not None:
        query = query.where(lane.c.queue == where.queue)
    if where.node is not None:
        query = query.where(or_(live.c.node == where.node, done.c.node == where.node))
    if where.name_prefix is not None:
        # Not LIKE: it is case-sensitive on one database and not on the other.
        query = query.where(func.substr(task.c.name, 1, len(where.name_prefix)) == where.name_prefix)
    return query


def _whole_row(row: Row) -> Row:
    return row


def _without_parameters(row: Row) -> Row:
    return (*row[:_PARAMETERS], None, *row[_PARAMETERS + 1 :])


def _oldest_first(running: Sequence[Row], ended: Sequence[Row]) -> list[ExecutionRecord]:
    records = [task_rows.execution_from_row(row) for row in sorted(ended, key=itemgetter(0))]
    ended_ids = {record.id for record in records}
    return records + [_live_record(row) for row in running if row[0] not in ended_ids]


def _live_record(row: Sequence[Any]) -> ExecutionRecord:
    execution, task_id, round_, retry, node, session, assigned_at, started_at = row
    return ExecutionRecord(
        id=execution,
        task=task_id,
        round=round_,
        retry=retry,
        node=node,
        session=session,
        status=None,
        assigned_at=assigned_at,
        started_at=started_at,
        ended_at=None,
        failure=None,
        result=None,
        metrics=None,
    )
