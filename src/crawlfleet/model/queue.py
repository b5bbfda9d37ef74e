"""Queues: named lines in which tasks wait until they are placed, and the lanes within them.

A *lane* is a line of tasks that are equal for the scheduler: same queue, requirement, project and priority. Its id is
a hash of its content, so that every master gives the same lane the same id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.limits import PREEMPTIBLE_RANK_MAX, PRIORITY_MAX
from crawlfleet.model.requirement import Requirement, RequirementId, content_id

LaneId = int


class Queue(NamedTuple):
    """A queue. One that was never changed is open, and first in first out."""

    name: str
    is_paused: bool = False
    is_lifo: bool = False
    """Whether the order is last in, first out: the newest task is placed first."""

    @property
    def order(self) -> str:
        return "lifo" if self.is_lifo else "fifo"


@dataclass(frozen=True, slots=True)
class Lane:
    """The ready tasks that are equal for the scheduler."""

    id: LaneId
    queue: str
    project: str
    priority: int
    requirement_id: RequirementId
    requirement: Requirement

    @staticmethod
    def with_id(queue: str, project: str, priority: int, requirement: Requirement) -> Lane:
        requirement_id = requirement.id
        lane_id = content_id([queue, project, priority, requirement_id])
        return Lane(lane_id, queue, project, priority, requirement_id, requirement)

    @property
    def highest_rank(self) -> int:
        """The highest rank to which age lifts its tasks. A preemptible task never reaches the rank of the most urgent:
        stopped for them, it would be the older one and get its slot back before they do."""
        return max(self.priority, PREEMPTIBLE_RANK_MAX) if self.requirement.preemptible else PRIORITY_MAX

    def at_priority(self, priority: int) -> Lane:
        """Return the lane that differs from this one in its priority."""
        return Lane.with_id(self.queue, self.project, priority, self.requirement)


class PriorityClasses(NamedTuple):
    """The least priority of each class, the highest class first."""

    high: int = 10
    normal: int = 5
    low: int = 1

    def find_class(self, priority: int) -> str:
        """Return the class of a priority: the one with the largest number that is not above it. A priority below all
        of them is in the lowest class."""
        return next((name for name, least in self._asdict().items() if least <= priority), self._fields[-1])

    def find_priority(self, name: str) -> int | None:
        """Return the priority that a class stands for; None for a name that is no class."""
        return self._asdict().get(name)
