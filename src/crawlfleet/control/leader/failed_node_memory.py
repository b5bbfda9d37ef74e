"""The leader's memory of the node on which a task that is about to be retried failed the last time.

It is a preference, not a rule. The stager fills it when the task is due, so that tasks that never failed cost nothing.
A task that a new leader does not know is placed like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crawlfleet.model.ids import NodeId, TaskId

MAX_TASKS = 100_000


class FailedNodeMemory:
    def __init__(self) -> None:
        self._failed_on: dict[TaskId, NodeId] = {}

    def __bool__(self) -> bool:
        return bool(self._failed_on)

    def remember_failures(self, failed_on: Mapping[TaskId, NodeId]) -> None:
        self._failed_on |= failed_on
        while len(self._failed_on) > MAX_TASKS:
            del self._failed_on[next(iter(self._failed_on))]

    def failed_nodes(self, tasks: Iterable[TaskId]) -> dict[TaskId, NodeId]:
        return {task: self._failed_on[task] for task in tasks if task in self._failed_on}

    def forget_tasks(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            self._failed_on.pop(task, None)
