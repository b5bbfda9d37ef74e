"""Projects: their shares and quotas, what they use, and the one write that has to be sure of both.

A project has a *fence*, which is another one after every change of its quotas and after every assignment by hand. Only
the leader assigns without asking the store what the project uses: it counts in its own memory, and says with each
batch which fences that count is good for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project, Use
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.task_store import Applied, Assignment


class ProjectUse(NamedTuple):
    waiting: int
    """Pending, waiting or to be tried again."""
    held: Use
    """Assigned or processing."""


class ProjectStore(Protocol):
    async def projects(self) -> list[Project]:
        """Those that somebody described, by name."""
        ...

    async def project(self, name: str) -> Project:
        """With the defaults, and version 0, when nobody described it."""
        ...

    async def change_project(
        self,
        name: str,
        change: Callable[[Project], Project],
        fence: int,
        now: Instant,
        expected_version: int | None = None,
    ) -> Project:
        """The next version. Raises Conflict when the newest is not the expected one."""
        ...

    async def drop_project(self, name: str, now: Instant) -> bool:
        """It has the defaults again; False when nobody described it."""
        ...

    async def project_uses(self, names: Sequence[str] | None = None) -> dict[str, ProjectUse]:
        """Of those named; or of all that have tasks which have not ended."""
        ...

    async def held_in(self, projects: Sequence[str]) -> list[LiveTask]:
        """What nodes hold of these projects."""
        ...

    async def assign_by_hand(
        self, item: Assignment, project: str, refuses: Callable[[Project, Use], Refusal | None], now: Instant
    ) -> Applied:
        """Like `assign`, if the project's quotas allow it by what it uses at this very moment; with a new fence."""
        ...
