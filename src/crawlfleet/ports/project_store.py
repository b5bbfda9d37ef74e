"""Projects: their shares and quotas, their use, and the assignment by hand, which checks both in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.daily_quota import Amounts, Day, Slice, SliceRequest
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.project import Project, Use
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.task_store import Applied, Assignment


class ProjectUse(NamedTuple):
    """The use of a project's quotas by its open tasks."""

    waiting: int
    """Number of tasks that are pending, waiting or to be tried again."""
    held: Use
    """Slots and resources of tasks that are assigned or processing."""


class ProjectStore(Protocol):
    """Access to projects and their use, to their daily quotas and quota slices.

    A project has a *fence*, which changes with every change of its quotas and with every assignment by hand. Only the
    leader assigns without asking the store what the project uses: it counts in its own memory, and sends with each
    batch the fences that this count is valid for.

    The daily quotas are how much of a project's day is granted to executions. At no instant does the amount that is
    granted and not returned exceed the quota. The amount that an execution did not use is returned with the outcome
    that reports it, in the transaction that accepts the outcome; an execution that dies without an outcome keeps all it
    was granted.
    """

    async def list_projects(self) -> list[Project]:
        """Return the projects that were configured, by name."""
        ...

    async def load_project(self, name: str) -> Project:
        """Return a project; with the defaults, and version 0, when it was never configured."""
        ...

    async def change_project(
        self,
        name: str,
        change: Callable[[Project], Project],
        fence: int,
        now: Instant,
        expected_version: int | None = None,
    ) -> Project:
        """Write the next version. Raises Conflict when the newest is not the expected one."""
        ...

    async def drop_project(self, name: str, now: Instant) -> bool:
        """Reset a project to the defaults; False when it was never configured."""
        ...

    async def project_uses(self, names: Sequence[str] | None = None) -> dict[str, ProjectUse]:
        """Return the use of the named projects; or of all that have tasks which have not ended."""
        ...

    async def held_in(self, projects: Sequence[str]) -> list[LiveTask]:
        """Return the tasks of these projects that nodes hold."""
        ...

    async def assign_by_hand(
        self, item: Assignment, project: str, refuses: Callable[[Project, Use], Refusal | None], now: Instant
    ) -> Applied:
        """Assign like `assign_tasks`, if the project's quotas allow it by its use in this transaction.

        Sets a new fence.
        """
        ...

    async def grant_slices(self, wants: Sequence[SliceRequest], now: Instant) -> list[Slice | None]:
        """Grant quota slices: one answer per request, in order; None if it is not the live execution on its node.

        A request under a number that was granted before gets the same answer as then, and is granted nothing more.
        """
        ...

    async def day_uses(self, projects: Sequence[str], day: Day) -> dict[str, Amounts]:
        """Return, for each of these projects, the amount granted of the day that was not returned."""
        ...

    async def parked_with_room(self, now: Instant, limit: int) -> list[TaskId]:
        """Find tasks parked for a day of which something is left by now, no more of them than that suffices for.

        That happens when the quota was raised, or when an execution returned what it did not use.
        """
        ...
