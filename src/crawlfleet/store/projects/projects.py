"""Projects: the rows of those that were configured, and what all of them use.

A lock on the row orders the transactions that have to be sure of a quota: submissions that count waiting tasks,
assignments by hand, and batches of the leader, which share it. A transaction that needs more locks takes this one
first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace

from crawlfleet.errors import Conflict
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project, Use
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.project_store import ProjectUse
from crawlfleet.ports.task_store import Applied, Assignment
from crawlfleet.store import schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.projects.project_quotas import held_by_project, waiting_by_project
from crawlfleet.store.projects.project_rows import LOCK_PROJECTS, PROJECT, PROJECT_ROWS, PROJECTS, project_from_row
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.task_assign import assign_batch
from crawlfleet.store.tasks.transaction_log import write_events
from crawlfleet.store.tasks.transitions import LIVE_LIST

_COLUMNS = (*PROJECT_ROWS.columns, "is_metered")
PROJECT_FENCES = "SELECT name, fence FROM project WHERE name AMONG($1) ORDER BY name SHARE_ROWS(project)"
HELD_IN = f"SELECT {LIVE_LIST} FROM live l JOIN lane n ON n.id = l.lane WHERE l.node <> 0 AND n.project AMONG($1)"


class ProjectTables:
    _engine: Engine
    _lanes: LaneBook

    async def list_projects(self) -> list[Project]:
        return [project_from_row(row) for row in await self._engine.read_by_key(lambda tx: tx.fetch(PROJECTS))]

    async def load_project(self, name: str) -> Project:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(PROJECT, name))
        return project_from_row(rows[0]) if rows else Project(name)

    async def change_project(
        self,
        name: str,
        change: Callable[[Project], Project],
        fence: int,
        now: Instant,
        expected_version: int | None = None,
    ) -> Project:
        async def write_change(tx: Tx) -> Project:
            await tx.insert_new(schema.project, _COLUMNS, [_project_row(replace(Project(name), changed_at=now))])
            (row,) = await tx.fetch(LOCK_PROJECTS, [name])
            have = project_from_row(row)
            if expected_version is not None and expected_version != have.version:
                raise Conflict(f"project {name} is at version {have.version}, not {expected_version}")
            want = replace(change(have), name=name, version=have.version + 1, fence=fence, changed_at=now)
            await tx.update(schema.project, _COLUMNS, [_project_row(want)])
            await write_events(tx, [_change_event(want)], now)
            return want

        return await self._engine.write(write_change)

    async def drop_project(self, name: str, now: Instant) -> bool:
        async def delete_project(tx: Tx) -> bool:
            if not await tx.execute("DELETE FROM project WHERE name = $1", name):
                return False
            await write_events(tx, [_change_event(Project(name))], now)
            return True

        return await self._engine.write(delete_project)

    async def project_uses(self, names: Sequence[str] | None = None) -> dict[str, ProjectUse]:
        async def read_uses(tx: Tx) -> dict[str, ProjectUse]:
            waiting = await waiting_by_project(tx, self._lanes, names)
            held = await held_by_project(tx, self._lanes, names)
            wanted = names if names is not None else sorted({*(name for name, n in waiting.items() if n > 0), *held})
            return {name: ProjectUse(waiting.get(name, 0), held.get(name, Use())) for name in wanted}

        return await self._engine.read(read_uses)

    async def held_in(self, projects: Sequence[str]) -> list[LiveTask]:
        rows = await self._engine.read(lambda tx: tx.fetch(HELD_IN, list(projects)))
        return [task_rows.live_task_from_row(row) for row in rows]

    async def assign_by_hand(
        self, item: Assignment, project: str, refuses: Callable[[Project, Use], Refusal | None], now: Instant
    ) -> Applied:
        async def assign_task(tx: Tx) -> Applied:
            rows = await tx.fetch(LOCK_PROJECTS, [project])
            if rows:
                held = await held_by_project(tx, self._lanes, [project])
                if refusal := refuses(project_from_row(rows[0]), held.get(project, Use())):
                    return Applied(refused={item.task: refusal})
                # Execution ids never repeat: this one was never a fence of the project before.
                await tx.execute("UPDATE project SET fence = $2 WHERE name = $1", project, item.execution)
            return await assign_batch(tx, self._lanes, [item], now)

        return await self._engine.write(assign_task)


async def behind_fences(tx: Tx, fences: Mapping[str, int]) -> set[str]:
    """Select the leader's projects that have changed since it read them; the others do not change until this
    transaction ends."""
    current = {row[0]: row[1] for row in await tx.fetch(PROJECT_FENCES, sorted(fences))}
    return {project for project, fence in fences.items() if current.get(project, 0) != fence}


async def lock_projects(tx: Tx, names: Collection[str]) -> None:
    """Lock projects for a transaction that changes other tasks before it adds some."""
    if names:
        await tx.fetch(LOCK_PROJECTS, sorted(names))


def _project_row(project: Project) -> Row:
    return (*PROJECT_ROWS.to_row(project), int(project.quotas.limits_days))


def _change_event(project: Project) -> EventBatch:
    shared = {
        "project": project.name,
        "version": project.version,
        "weight": project.weight,
        "on_full": project.on_full.word,
        "quotas": asdict(project.quotas),
    }
    return EventBatch(Kind.PROJECT_CHANGED, shared=shared)
