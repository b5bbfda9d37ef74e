"""The leader's memory of the placements of the last second, which keeps tasks from bouncing.

A task that is pending again within a second of its placement was handed back by its node. Placed there again at once it
would come back again, dozens of times a second. It goes to another node, or waits until the second is over. A new
leader does not know of it and places it once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.ports.task_store import Assignment

PAUSE_S = 1.0


class _Placement(NamedTuple):
    node: NodeId
    session: int
    placed_at: float


class RecentPlacements:
    def __init__(self) -> None:
        self._placements: dict[TaskId, _Placement] = {}
        """Placements by task, oldest first."""

    def record_placements(self, assignments: Iterable[Assignment], now_mono: float) -> None:
        for assignment in assignments:
            self._placements.pop(assignment.task, None)
            self._placements[assignment.task] = _Placement(assignment.node, assignment.session, now_mono)

    def forget_before(self, now_mono: float) -> None:
        """Drop placements older than the pause: done in each pass, so that memory holds those of one second."""
        while self._placements:
            task, oldest = next(iter(self._placements.items()))
            if oldest.placed_at > now_mono - PAUSE_S:
                return
            del self._placements[task]

    def recent_nodes(self, tasks: Iterable[TaskId]) -> dict[TaskId, NodeId]:
        """The node of each task that was placed within the last second."""
        return {task: self._placements[task].node for task in tasks if task in self._placements}

    def bounced_tasks(self, assignments: Sequence[Assignment]) -> set[TaskId]:
        """The tasks that would go back to the session they just came from."""
        return {
            assignment.task
            for assignment in assignments
            if (placement := self._placements.get(assignment.task))
            and (placement.node, placement.session) == (assignment.node, assignment.session)
        }

    def newest_tasks(self, count: int) -> list[TaskId]:
        """The tasks that were placed last."""
        return list(islice(reversed(self._placements), count))

    def clear(self) -> None:
        self._placements.clear()
