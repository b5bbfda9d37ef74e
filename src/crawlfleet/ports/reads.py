"""Reading what is stored: tasks by filter, their executions, dead letters."""

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
    statuses: tuple[TaskStatus, ...] = ()
    project: str | None = None
    workflow: str | None = None
    task_type: str | None = None
    queue: str | None = None
    node: NodeId | None = None
    name_prefix: str | None = None
    group: GroupId | None = None


class TaskPage(NamedTuple):
    tasks: Sequence[TaskRecord]
    before: TaskId | None
    """Where the next page begins; None at the end."""
    searched_to: TaskId | None = None
    """Where a search stopped though there is more: a page costs a bounded number of rows, however rare its finds."""


class Reads(Protocol):
    """What people look at. Pages are newest first; the cursor is the last id seen."""

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
        """A page that costs no more than so many rows and bytes. `text` is the beginning of an id or of a name, or a
        part of the host of a URL in the parameters. Records have their parameters only `with_parameters`."""
        ...

    async def executions(self, task: TaskId) -> list[ExecutionRecord]:
        """The last hundred, oldest first."""
        ...

    async def execution_page(self, task: TaskId, limit: int, after: ExecutionId = 0) -> RecordPage[ExecutionRecord]:
        """Oldest first."""
        ...

    async def parents(self, task: TaskId) -> dict[TaskId, TaskStatus | None]:
        """Parents a waiting task still waits for, with their status."""
        ...

    async def dead_letters(
        self, limit: int, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]: ...

    async def dead_letter_groups(self, project: str | None = None) -> list[DeadLetterGroup]: ...
