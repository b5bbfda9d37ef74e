"""Where tasks that are about to be tried again failed the last time: the leader's memory, and only a wish.

The stager notes it when their time has come, so that tasks that never failed cost nothing. What a new leader does not
know is placed like any other task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crawlfleet.model.ids import NodeId, TaskId

MOST = 100_000


class Avoided:
    def __init__(self) -> None:
        self._failed_on: dict[TaskId, NodeId] = {}

    def __bool__(self) -> bool:
        return bool(self._failed_on)

    def note(self, failed_on: Mapping[TaskId, NodeId]) -> None:
        self._failed_on |= failed_on
        while len(self._failed_on) > MOST:
            del self._failed_on[next(iter(self._failed_on))]

    def among(self, tasks: Iterable[TaskId]) -> dict[TaskId, NodeId]:
        return {task: self._failed_on[task] for task in tasks if task in self._failed_on}

    def forget(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            self._failed_on.pop(task, None)
