"""Reads tasks for people: single tasks with their executions and progress, searches, counts, task types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.errors import NotFound
from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.ids import ExecutionId, TaskId, task_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.admin_store import ConfigStore, TypeRecord
from crawlfleet.ports.broker import ExecutionProgress
from crawlfleet.ports.composite_store import FlowStore
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.task_store import TaskFilter, TaskPage, TaskReadStore


class TaskReaderStore(TaskReadStore, FlowStore, FigureStore, ConfigStore, NodeStore, Protocol):
    """The part of the store that the reader needs."""


class TaskTypeUse(NamedTuple):
    record: TypeRecord
    connected_nodes: int
    """Number of connected nodes that run tasks of the type."""


class TaskReader:
    def __init__(self, *, store: TaskReaderStore, progress: ExecutionProgress) -> None:
        self._store = store
        self._progress = progress

    async def get_task(self, task: TaskId) -> TaskRecord:
        """Return the record of a task. Raises NotFound."""
        record = (await self._store.load_tasks([task])).get(task)
        if record is None:
            raise NotFound(f"no task {task_text(task)}")
        return record

    async def list_executions(self, task: TaskId) -> list[ExecutionRecord]:
        """Return the last hundred executions of a task, oldest first."""
        return await self._store.task_executions(task)

    async def page_executions(self, task: TaskId, limit: int, after: ExecutionId = 0) -> RecordPage[ExecutionRecord]:
        """Return a page of the executions of a task, oldest first."""
        return await self._store.execution_page(task, limit, after)

    async def get_progress(self, executions: Sequence[ExecutionRecord]) -> Mapping[ExecutionId, bytes]:
        """Return the progress of the running ones among the executions, as their nodes reported it last."""
        running = [execution.id for execution in executions if execution.status is None]
        return await self._progress.load_progress(running) if running else {}

    async def get_unrun_result(self, task: TaskId) -> bytes | None:
        """Return the result that a step of a flow collected from its items, without an execution of its own."""
        return await self._store.unrun_result(task)

    async def find_tasks(
        self,
        where: TaskFilter,
        limit: int,
        before: TaskId | None = None,
        text: str | None = None,
        *,
        with_parameters: bool = False,
    ) -> TaskPage:
        """Return a page of tasks, newest first. A search for a text looks at a bounded number of them."""
        return await self._store.find_tasks(where, limit, before, text, with_parameters=with_parameters)

    async def count_tasks(self, project: str | None = None) -> Mapping[TaskStatus, int]:
        """Return the number of tasks by status, from the counters."""
        return await self._store.task_totals(project)

    async def list_task_types(self) -> list[TaskTypeUse]:
        """Return the known task types by name."""
        connected = [node for node in await self._store.load_nodes() if node.is_session_open]
        return [
            TaskTypeUse(record, sum(record.name in node.description.task_types for node in connected))
            for record in await self._store.task_types()
        ]
