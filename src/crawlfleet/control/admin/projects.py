"""Projects: describe, change and reset them, and show what they use. The cached knowledge is a second old at most.

When a change is answered, the leader on this master places nothing more by the state before it. A leader on another
master is kept from it by the fence; or, if this is the first project that was ever described, receives a signal, or
finds it within a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from crawlfleet.control.support.single_flight import SingleFlight
from crawlfleet.errors import NotFound
from crawlfleet.model.daily_quota import Amounts, day_end, utc_day
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project, Use
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.project_store import ProjectStore, ProjectUse
from crawlfleet.wire.tasks import storage_problem

FRESH_S = 1.0
_NOTHING = ProjectUse(0, Use())


class ProjectReport(NamedTuple):
    project: Project
    use: ProjectUse
    today: Amounts
    """Amounts of the daily quota that are granted and have not been returned."""
    renews_at: Instant


class Projects:
    def __init__(
        self, *, store: ProjectStore, broker: Broker, clock: Clock, id_factory: IdFactory, placing: asyncio.Lock
    ) -> None:
        """Create the service; `placing` is held by the dispatcher of this master from its read to its commit."""
        self._store = store
        self._placing = placing
        self._broker = broker
        self._clock = clock
        self._ids = id_factory
        self._limited: frozenset[str] = frozenset()
        self._read_at: float | None = None
        self._changes = 0
        self._refresh_once = SingleFlight(self._read_limited_projects, "projects")

    async def change_project(
        self, name: str, change: Callable[[Project], Project], expected_version: int | None = None
    ) -> Project:
        """Write the next version of the project; the leader reads it before it places more. Raises Conflict."""
        now = self._clock.now()
        project = await self._store.change_project(name, change, self._ids.new_id(), now, expected_version)
        await self._notify_leader()
        return project

    async def reset_project(self, name: str) -> None:
        """Reset the project to the defaults. Raises NotFound when it was never described."""
        if storage_problem(name) or not await self._store.drop_project(name, self._clock.now()):
            raise NotFound(f"nobody described project {name!r}")
        await self._notify_leader()

    async def get_report(self, name: str) -> ProjectReport:
        """Return the report on a project. Raises NotFound for one that was never described and that has no open
        tasks."""
        if storage_problem(name):
            raise NotFound("no project of this name")
        project, uses = await self._store.load_project(name), await self._store.project_uses([name])
        use = uses[name]
        if not project.version and not use.waiting and not use.held.running:
            raise NotFound(f"nobody described project {name!r}, and it has no open tasks")
        day = utc_day(self._clock.now())
        today = await self._store.day_uses([name], day)
        return ProjectReport(project, use, today[name], day_end(day))

    async def list_reports(self) -> list[ProjectReport]:
        """Return the reports on the described projects and on those that have open tasks, by name. Tasks without a
        project belong to none."""
        described = {project.name: project for project in await self._store.list_projects()}
        uses = await self._store.project_uses()
        day = utc_day(self._clock.now())
        metered = [name for name, project in described.items() if project.quotas.limits_days]
        today = await self._store.day_uses(metered, day)
        return [
            ProjectReport(
                described.get(name) or Project(name), uses.get(name, _NOTHING), today.get(name, Amounts()), day_end(day)
            )
            for name in sorted({*described, *uses} - {""})
        ]

    async def load_limited_projects(self) -> frozenset[str]:
        """Return the projects that may refuse a submit."""
        if self._read_at is None or self._clock.monotonic() - self._read_at >= FRESH_S:
            await self._refresh_once()
        return self._limited

    async def _read_limited_projects(self) -> None:
        now_mono, changes = self._clock.monotonic(), self._changes
        self._limited = frozenset(
            project.name for project in await self._store.list_projects() if project.limits_submits
        )
        # This read may have missed a change that was made here meanwhile.
        self._read_at = now_mono if changes == self._changes else None

    async def _notify_leader(self) -> None:
        self._changes += 1
        self._read_at = None
        await self._broker.signals.send_signals([LOOK, LEADER])
        async with self._placing:
            pass
