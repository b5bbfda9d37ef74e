"""Daily quotas: a row per project and day with the granted amounts, and a row per execution with its quota slices.

A grant shares the project's row, then those of the executions' tasks, then locks the day's; the end of an execution
has its task's row before it touches the day's. So a grant and an end of one execution follow each other, and no
transactions wait in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from crawlfleet.model.daily_quota import Amounts, Day, Holding, Slice, SliceRequest, utc_day
from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import ExecutionId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project
from crawlfleet.model.queue import LaneId
from crawlfleet.scheduling.quotas.daily_quota import (
    count_retriable,
    grant_amounts,
    holding_after_grant,
    quota_denials,
    unused_amounts,
)
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.projects.project_rows import PROJECTS_AMONG, SHARE_PROJECTS, project_from_row
from crawlfleet.store.row_codec import RowCodec
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.parking import EARLY_MS, NEWS_MS

KEEP_DAYS = 7
DAY_USES = "SELECT project, pages, bytes FROM day_use WHERE project AMONG($1) AND day = $2"
ADD_TO_DAY = "UPDATE day_use SET pages = pages + $3, bytes = bytes + $4 WHERE project = $1 AND day = $2"
_HOLDINGS = RowCodec(schema.day_slice, Holding, columns={"today.pages": "day_pages", "today.bytes": "day_bytes"})
HOLDINGS = f"SELECT {_HOLDINGS.select} FROM day_slice WHERE execution AMONG($1)"
FORGET_HOLDINGS = "DELETE FROM day_slice WHERE execution AMONG($1)"
OLD_DAYS = "DELETE FROM day_use WHERE (project, day) IN (SELECT project, day FROM day_use WHERE day < $1 LIMIT $2)"
# An execution that runs for days still has to receive the total of what it was granted, so its row stays.
OLD_HOLDINGS = (
    "DELETE FROM day_slice WHERE execution IN (SELECT execution FROM day_slice WHERE day < $1 AND NOT EXISTS "
    "(SELECT 1 FROM live WHERE live.id = day_slice.task AND live.execution = day_slice.execution) "
    "ORDER BY day LIMIT $2)"
)
_QUOTA = int(ParkCause.DAILY_QUOTA)
LANES_OF = "SELECT id, lane FROM live WHERE id AMONG($1)"
SHARE_LIVE = "SELECT id, execution, node FROM live WHERE id AMONG($1) ORDER BY id SHARE_ROWS(live)"
LOCK_DAY = f"{DAY_USES} ORDER BY project LOCK_ROWS(day_use)"
# Hops from project to project over the index: a few lookups each, whatever the number of tasks.
PARKED_PROJECTS = (
    "WITH RECURSIVE hop(subject) AS ("
    f"SELECT (SELECT MIN(subject) FROM parking WHERE cause = {_QUOTA}) "
    f"UNION ALL SELECT (SELECT MIN(subject) FROM parking WHERE cause = {_QUOTA} AND subject > hop.subject) FROM hop "
    "WHERE hop.subject IS NOT NULL) SELECT subject FROM hop WHERE subject IS NOT NULL"
)
# Joined with the task's own project: the subject was reported by a node, and is untrusted data.
PARKED_LONGER = (
    "SELECT p.task FROM parking p JOIN task t ON t.id = p.task AND t.project = p.subject "
    f"WHERE p.cause = {_QUOTA} AND p.subject = $1 AND p.until > $2 AND p.at <= $3 ORDER BY p.until LIMIT $4"
)
_COLUMNS = (*_HOLDINGS.columns, "task")


class DailyTables:
    _engine: Engine
    _lanes: LaneBook

    async def grant_slices(self, wants: Sequence[SliceRequest], now: Instant) -> list[Slice | None]:
        async def grant_all(tx: Tx) -> list[Slice | None]:
            return await _SliceGranting(tx, self._lanes, now).grant_slices(wants)

        return await self._engine.write(grant_all) if wants else []

    async def day_uses(self, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
        return await self._engine.read_by_key(lambda tx: load_day_uses(tx, projects, day)) if projects else {}

    async def parked_with_room(self, now: Instant, limit: int) -> list[TaskId]:
        async def find_parked(tx: Tx) -> list[TaskId]:
            names = [row[0] for row in await tx.fetch(PARKED_PROJECTS)]
            if not names:
                return []
            day = utc_day(now)
            used = await load_day_uses(tx, names, day)
            projects = {row[0]: project_from_row(row) for row in await tx.fetch(PROJECTS_AMONG, names)}
            tasks: list[TaskId] = []
            for name in names:
                free_count = count_retriable(projects.get(name) or Project(name), used[name], day)
                if count := min(free_count, limit - len(tasks)):
                    rows = await tx.fetch(PARKED_LONGER, name, now + EARLY_MS, now - NEWS_MS, count)
                    tasks += [row[0] for row in rows]
            return tasks

        return await self._engine.read(find_parked)


async def return_unused(tx: Tx, ended: Mapping[ExecutionId, Amounts]) -> None:
    """Return what executions that have just ended did not use to the day it was granted of."""
    back: dict[tuple[str, Day], Amounts] = defaultdict(Amounts)
    held = await load_holdings(tx, list(ended))
    for execution, holding in held.items():
        key = holding.project, holding.day
        back[key] = back[key].plus(unused_amounts(holding, ended[execution]))
    for (project, day), amounts in sorted(back.items()):
        if any(amounts):
            await tx.execute(ADD_TO_DAY, project, day, -amounts.pages, -amounts.bytes)
    if held:
        await tx.execute(FORGET_HOLDINGS, sorted(held))


async def load_holdings(tx: Tx, executions: Sequence[ExecutionId]) -> dict[ExecutionId, Holding]:
    rows = await tx.fetch(HOLDINGS, sorted(set(executions)))
    return {holding.execution: holding for holding in _HOLDINGS.from_rows(rows)}


async def load_day_uses(tx: Tx, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
    uses = {name: Amounts(*amounts) for name, *amounts in await tx.fetch(DAY_USES, sorted(projects), day)}
    return {name: uses.get(name, Amounts()) for name in projects}


async def forget_days(tx: Tx, now: Instant, limit: int) -> int:
    today = utc_day(now)
    return await tx.execute(OLD_DAYS, today - KEEP_DAYS, limit) + await tx.execute(OLD_HOLDINGS, today - 1, limit)


class _SliceGranting:
    def __init__(self, tx: Tx, lanes: LaneBook, now: Instant) -> None:
        self._tx = tx
        self._lanes = lanes
        self._now = now
        self._day = utc_day(now)
        self._holdings: dict[ExecutionId, Holding] = {}
        self._tasks: dict[ExecutionId, TaskId] = {}
        """Tasks of the executions that were granted something."""

    async def grant_slices(self, requests: Sequence[SliceRequest]) -> list[Slice | None]:
        tx, tasks = self._tx, sorted({request.task for request in requests})
        lanes: dict[TaskId, LaneId] = dict(await tx.fetch(LANES_OF, tasks))
        await self._lanes.load_lanes(tx, set(lanes.values()))
        names = sorted({self._lanes[lane].project for lane in lanes.values()})
        if not names:
            return [None] * len(requests)
        rows = await tx.fetch(SHARE_PROJECTS, names)
        projects = {name: Project(name) for name in names} | {row[0]: project_from_row(row) for row in rows}
        live = {(task, execution, node) for task, execution, node in await tx.fetch(SHARE_LIVE, tasks)}
        await tx.insert_new(
            schema.day_use, ("project", "day", "pages", "bytes"), [(name, self._day, 0, 0) for name in names]
        )
        before = {name: Amounts(*amounts) for name, *amounts in await tx.fetch(LOCK_DAY, names, self._day)}
        self._holdings = await load_holdings(tx, [request.execution for request in requests])
        used, answers = dict(before), list[Slice | None]()
        for request in requests:
            if (request.task, request.execution, request.node) not in live:
                answers.append(None)
                continue
            project = projects[self._lanes[lanes[request.task]].project]
            answers.append(self._grant_slice(request, project, used))
        await self._write_rows(before, used)
        return answers

    def _grant_slice(self, request: SliceRequest, project: Project, used: dict[str, Amounts]) -> Slice:
        holding = self._holdings.get(request.execution) or Holding(request.execution, project.name, self._day, 0)
        if request.number <= holding.number:
            return Slice(holding.number, holding.total)
        amounts = used[project.name]
        granted = grant_amounts(request.amounts, project.quotas, amounts)
        denials = tuple(quota_denials(request, granted, holding, project, amounts, self._now))
        if not any(granted):
            return Slice(request.number, holding.total, denials)
        used[project.name] = amounts.plus(granted)
        holding = self._holdings[request.execution] = holding_after_grant(holding, request, granted, self._day)
        self._tasks[request.execution] = request.task
        return Slice(request.number, holding.total, denials)

    async def _write_rows(self, before: Mapping[str, Amounts], used: Mapping[str, Amounts]) -> None:
        for name in sorted(used):
            more = Amounts(used[name].pages - before[name].pages, used[name].bytes - before[name].bytes)
            if any(more):
                await self._tx.execute(ADD_TO_DAY, name, self._day, *more)
        rows = [(*_HOLDINGS.to_row(self._holdings[execution]), task) for execution, task in sorted(self._tasks.items())]
        if rows:
            await self._tx.insert_new(schema.day_slice, _COLUMNS, rows)
            await self._tx.update(schema.day_slice, _COLUMNS, rows)
