"""Projects: rows of those that somebody described, and what all of them use.

A lock on the row orders whoever has to be sure of a quota: submits that count what waits, assignments by hand, and
batches of the leader, which share it. Whoever needs more locks takes this one first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace

from crawlfleet.errors import Conflict, OverLimit
from crawlfleet.model.answers import Refusal
from crawlfleet.model.daily import day_of
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import OnFull, Project, Quotas, Use
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.project_store import ProjectUse
from crawlfleet.ports.task_store import Applied, Assignment
from crawlfleet.scheduling.daily import DayFull, day_full
from crawlfleet.scheduling.quota import Door
from crawlfleet.store import codec, tables
from crawlfleet.store.assigning import assign
from crawlfleet.store.days import uses_of
from crawlfleet.store.journal import write_events
from crawlfleet.store.lanes import LaneBook
from crawlfleet.store.transitions import LIVE_LIST
from crawlfleet.store.tx import Engine, Row, Tx

_READ = ("name", "weight", "on_full", "quotas", "version", "fence", "changed_at")
_COLUMNS = (*_READ, "is_metered")
_SELECT = f"SELECT {', '.join(_READ)} FROM project"
PROJECTS = f"{_SELECT} ORDER BY name"
PROJECT = f"{_SELECT} WHERE name = $1"
LOCK_PROJECTS = f"{_SELECT} WHERE name AMONG($1) ORDER BY name LOCK_ROWS(project)"
PROJECTS_AMONG = f"{_SELECT} WHERE name AMONG($1) ORDER BY name"
SHARE_PROJECTS = f"{PROJECTS_AMONG} SHARE_ROWS(project)"
PROJECT_FENCES = "SELECT name, fence FROM project WHERE name AMONG($1) ORDER BY name SHARE_ROWS(project)"
_WAITING = (TaskStatus.PENDING, TaskStatus.WAITING, TaskStatus.RETRYING)
_WAITING_LIST = ", ".join(str(int(status)) for status in _WAITING)
_COUNTERS = "(SELECT project, status, n FROM counter UNION ALL SELECT project, status, n FROM counter_delta) AS c"
WAITING = f"SELECT project, SUM(n) FROM {_COUNTERS} WHERE status IN ({_WAITING_LIST}) GROUP BY project"
WAITING_AMONG = (
    f"SELECT project, SUM(n) FROM {_COUNTERS} WHERE project AMONG($1) AND status IN ({_WAITING_LIST}) GROUP BY project"
)
HELD_LANES = "SELECT lane, COUNT(*) FROM live WHERE node <> 0 GROUP BY lane"
HELD_LANES_AMONG = (
    "SELECT l.lane, COUNT(*) FROM live l JOIN lane n ON n.id = l.lane WHERE l.node <> 0 AND n.project AMONG($1) "
    "GROUP BY l.lane"
)
HELD_IN = f"SELECT {LIVE_LIST} FROM live l JOIN lane n ON n.id = l.lane WHERE l.node <> 0 AND n.project AMONG($1)"


class ProjectTables:
    _engine: Engine
    _lanes: LaneBook

    async def projects(self) -> list[Project]:
        return [described(row) for row in await self._engine.glance(lambda tx: tx.fetch(PROJECTS))]

    async def project(self, name: str) -> Project:
        rows = await self._engine.glance(lambda tx: tx.fetch(PROJECT, name))
        return described(rows[0]) if rows else Project(name)

    async def change_project(
        self, name: str, change: Callable[[Project], Project], fence: int, now: Instant,
        expected_version: int | None = None,
    ) -> Project:  # fmt: skip
        async def work(tx: Tx) -> Project:
            await tx.insert_new(tables.project, _COLUMNS, [_row(replace(Project(name), changed_at=now))])
            (row,) = await tx.fetch(LOCK_PROJECTS, [name])
            have = described(row)
            if expected_version is not None and expected_version != have.version:
                raise Conflict(f"project {name} is at version {have.version}, not {expected_version}")
            want = replace(change(have), name=name, version=have.version + 1, fence=fence, changed_at=now)
            await tx.update(tables.project, _COLUMNS, [_row(want)])
            await write_events(tx, [_changed(want)], now)
            return want

        return await self._engine.write(work)

    async def drop_project(self, name: str, now: Instant) -> bool:
        async def work(tx: Tx) -> bool:
            if not await tx.execute("DELETE FROM project WHERE name = $1", name):
                return False
            await write_events(tx, [_changed(Project(name))], now)
            return True

        return await self._engine.write(work)

    async def project_uses(self, names: Sequence[str] | None = None) -> dict[str, ProjectUse]:
        async def work(tx: Tx) -> dict[str, ProjectUse]:
            waiting = await waiting_by_project(tx, names)
            held = await held_by_project(tx, self._lanes, names)
            wanted = names if names is not None else sorted({*(name for name, n in waiting.items() if n > 0), *held})
            return {name: ProjectUse(waiting.get(name, 0), held.get(name, Use())) for name in wanted}

        return await self._engine.read(work)

    async def held_in(self, projects: Sequence[str]) -> list[LiveTask]:
        rows = await self._engine.read(lambda tx: tx.fetch(HELD_IN, list(projects)))
        return [codec.live_task(row) for row in rows]

    async def assign_by_hand(
        self, item: Assignment, project: str, refuses: Callable[[Project, Use], Refusal | None], now: Instant
    ) -> Applied:
        async def work(tx: Tx) -> Applied:
            rows = await tx.fetch(LOCK_PROJECTS, [project])
            if rows:
                held = await held_by_project(tx, self._lanes, [project])
                if refusal := refuses(described(rows[0]), held.get(project, Use())):
                    return Applied(refused={item.task: refusal})
                # Ids never repeat: this one was never anybody's fence.
                await tx.execute("UPDATE project SET fence = $2 WHERE name = $1", project, item.execution)
            return await assign(tx, self._lanes, [item], now)

        return await self._engine.write(work)


async def behind_fences(tx: Tx, fences: Mapping[str, int]) -> set[str]:
    """Of the leader's projects those that have changed since it looked; the others stay as they are until the end."""
    known = {row[0]: row[1] for row in await tx.fetch(PROJECT_FENCES, sorted(fences))}
    return {project for project, fence in fences.items() if known.get(project, 0) != fence}


async def hold(tx: Tx, names: Collection[str]) -> None:
    """For whoever changes other tasks before it adds some."""
    if names:
        await tx.fetch(LOCK_PROJECTS, sorted(names))


async def open_doors(tx: Tx, lanes: LaneBook, names: Collection[str], now: Instant) -> dict[str, Door]:
    """The doors of projects with quotas, as they are until this transaction ends."""
    described_ones = [described(row) for row in await tx.fetch(LOCK_PROJECTS, sorted(names))] if names else []
    limited = [project for project in described_ones if project.limits_submits]
    if not limited:
        return {}
    waiting = await waiting_by_project(tx, [project.name for project in limited])
    strict = [project for project in limited if project.on_full is OnFull.REFUSE]
    held = await held_by_project(tx, lanes, [project.name for project in strict]) if strict else {}
    spent = await _spent(tx, strict, now)
    return {
        project.name: Door(
            project, waiting.get(project.name, 0), held.get(project.name, Use()), spent.get(project.name)
        )
        for project in limited
    }


def over_limit(full: str, renews_at: Instant | None, now: Instant) -> OverLimit:
    """For a project that is shut, with the time to come again."""
    return OverLimit(full) if renews_at is None else OverLimit(full, retry_after_s=(renews_at - now) / 1000)


async def _spent(tx: Tx, projects: Sequence[Project], now: Instant) -> dict[str, DayFull]:
    daily, day = [project for project in projects if project.quotas.limits_days], day_of(now)
    used = await uses_of(tx, [project.name for project in daily], day) if daily else {}
    return {project.name: full for project in daily if (full := day_full(project, used[project.name], day))}


async def waiting_by_project(tx: Tx, names: Sequence[str] | None = None) -> dict[str, int]:
    rows = await (tx.fetch(WAITING) if names is None else tx.fetch(WAITING_AMONG, list(names)))
    return {project: int(n) for project, n in rows}


async def held_by_project(tx: Tx, lanes: LaneBook, names: Sequence[str] | None = None) -> dict[str, Use]:
    rows = await (tx.fetch(HELD_LANES) if names is None else tx.fetch(HELD_LANES_AMONG, list(names)))
    await lanes.load(tx, (row[0] for row in rows))
    uses: dict[str, Use] = {}
    for lane, count in rows:
        uses.setdefault(lanes[lane].project, Use()).add(lanes[lane].requirement, int(count))
    return uses


def described(row: Row) -> Project:
    name, weight, on_full, quotas, version, fence, changed_at = row
    return Project(name, weight, Quotas(**codec.decode(quotas)), OnFull(on_full), version, fence, changed_at)


def _row(project: Project) -> Row:
    quotas = {name: limit for name, limit in asdict(project.quotas).items() if limit is not None}
    return (
        project.name, project.weight, int(project.on_full), codec.encode(quotas), project.version, project.fence,
        project.changed_at, int(project.quotas.limits_days),
    )  # fmt: skip


def _changed(project: Project) -> EventBatch:
    shared = {
        "project": project.name, "version": project.version, "weight": project.weight,
        "on_full": project.on_full.word, "quotas": asdict(project.quotas),
    }  # fmt: skip
    return EventBatch(Kind.PROJECT_CHANGED, shared=shared)
