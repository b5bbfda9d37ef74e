"""Read access to stored tasks by filter, their executions, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import DeadLetter, DeadLetterGroup, TaskRecord
from crawlfleet.ports.record_page import RecordPage


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The conditions of a list of tasks."""

    statuses: tuple[TaskStatus, ...] = ()
    project: str | None = None
    workflow: str | None = None
    task_type: str | None = None
    queue: str | None = None
    node: NodeId | None = None
    name_prefix: str | None = None
    group: GroupId | None = None


class TaskPage(NamedTuple):
    """A page of a list of tasks."""

    tasks: Sequence[TaskRecord]
    before: TaskId | None
    """Cursor of the next page; None at the end."""
    searched_to: TaskId | None = None
    """Id at which a search stopped though there is more: a page costs a bounded number of rows, however rare its
    matches."""


class Reads(Protocol):
    """Read access for people. Pages are newest first; the cursor is the last id seen."""

    async def tasks(self, ids: Sequence[TaskId], *, with_parameters: bool = True) -> dict[TaskId, TaskRecord]: ...

    async def list_tasks(self, where: TaskFilter, limit: int, before: TaskId | None = None) -> list[TaskRecord]: ...

    async def find_tasks(
        self,
        where: TaskFilter,
        limit: int,
        before: TaskId | None = None,
        text: str | None = None,
        *,
        with_parameters: bool = False,
    ) -> TaskPage:
        """Return a page that costs a bounded number of rows and bytes.

        `text` is the beginning of an id or of a name, or a part of the host of a URL in the parameters. Records have
        their parameters only `with_parameters`.
        """
        ...

    async def executions(self, task: TaskId) -> list[ExecutionRecord]:
        """Return the last hundred executions of a task, oldest first."""
        ...

    async def execution_page(self, task: TaskId, limit: int, after: ExecutionId = 0) -> RecordPage[ExecutionRecord]:
        """Return a page of the executions of a task, oldest first."""
        ...

    async def parents(self, task: TaskId) -> dict[TaskId, TaskStatus | None]:
        """Return the parents that a waiting task still waits for, with their status."""
        ...

    async def dead_letters(
        self, limit: int, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]: ...

    async def dead_letter_groups(self, project: str | None = None) -> list[DeadLetterGroup]: ...
