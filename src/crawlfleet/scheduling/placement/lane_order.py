"""The order in which lanes are served: priority, raised by age, then fair shares between projects, then the oldest.

Every `step_s` a lane's oldest task has waited lifts it by one rank, up to the highest priority (preemptible ones not as
far). There the older one wins, so that nothing waits for ever behind fresh work, while a fresh 10 still goes before a
fresh 9.

The order is kept from pass to pass: a pass costs what it looks at, not what there is.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from crawlfleet.model.ids import TaskId, made_at
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MAX
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.requirement import Requirement, RequirementId

MAX_RANK_AGE_MS = 1_000
"""Maximum age of the ranks before they are computed again."""
OLDEST_INTERVAL = 8
"""Number of tasks placed from a lane that is last in first out, of which one is its oldest."""


@dataclass(frozen=True, slots=True)
class Ageing:
    """How fast waiting raises the rank of a lane, and how far."""

    step_s: float = 60.0
    """Seconds of waiting for one step up; infinite: no ageing."""
    highest: int = PRIORITY_MAX

    def __post_init__(self) -> None:
        if not self.step_s > 0:
            raise ValueError("step_s must be above 0")


def effective_priority(priority: int, oldest_made_at: Instant, now: Instant, ageing: Ageing) -> int:
    lifted = priority + int((now - oldest_made_at) / 1000 / ageing.step_s)
    # Never lowered: a task from the future (another master's clock, or ours set back) has waited no time.
    return max(priority, min(ageing.highest, lifted))


def lane_rank(lane: Lane, oldest: TaskId, now: Instant, ageing: Ageing) -> int:
    return min(lane.highest_rank, effective_priority(lane.priority, made_at(oldest), now, ageing))


def count_oldest_turns(since: int, count: int) -> tuple[int, int]:
    """How many of the next `count` tasks of a lane that is last in first out are its oldest, and how many were placed
    since the last of those. So a task with n older ones is placed with the 8(n+1)-th at the latest."""
    return divmod(since + count, OLDEST_INTERVAL)


class ReadyLane:
    """A lane that has tasks to place."""

    __slots__ = ("lane", "oldest", "rank", "size")

    def __init__(self, lane: Lane, oldest: TaskId, size: int, rank: int) -> None:
        self.lane = lane
        self.oldest = oldest
        self.size = size
        self.rank = rank


LaneRow = Sequence[tuple[TaskId, LaneId, ReadyLane]]
"""Lanes of one project at one rank, the longest waiting first."""


class LaneOrder:
    """All lanes that have tasks to place, by rank and project."""

    def __init__(self, ageing: Ageing) -> None:
        self.classes: Counter[RequirementId] = Counter()
        """Number of lanes of each class of tasks."""
        self.subject_requirements: dict[RequirementId, Requirement] = {}
        """Requirements of the classes that name subjects of evidence."""
        self._ageing = ageing
        self._ranked_at: Instant = 0
        self._lanes: dict[LaneId, ReadyLane] = {}
        self._ranks: dict[int, dict[str, list[tuple[TaskId, LaneId, ReadyLane]]]] = {}

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[ReadyLane]:
        return iter(self._lanes.values())

    def update_lane(self, lane: Lane, oldest: TaskId, size: int) -> None:
        """Set the oldest task and the size of a lane; an empty lane is removed."""
        ready = self._lanes.get(lane.id)
        if ready is not None:
            if ready.oldest == oldest and size > 0:
                ready.size = size
                return
            self._remove(ready)
        if size > 0:
            self._insert(ReadyLane(lane, oldest, size, self._rank(lane, oldest)))

    def remove_lane(self, lane: LaneId) -> None:
        ready = self._lanes.get(lane)
        if ready is not None:
            self._remove(ready)

    def clear(self) -> None:
        self._lanes.clear()
        self._ranks.clear()
        self.classes.clear()
        self.subject_requirements.clear()

    def lanes_by_rank(self, now: Instant) -> Iterator[tuple[int, Mapping[str, LaneRow]]]:
        """The lanes of each project at each rank, best rank first. Must not be changed during the iteration."""
        if not 0 <= now - self._ranked_at < MAX_RANK_AGE_MS:
            self._update_ranks(now)
        for rank in sorted(self._ranks, reverse=True):
            yield rank, self._ranks[rank]

    def _update_ranks(self, now: Instant) -> None:
        self._ranked_at = now
        changed = [ready for ready in self._lanes.values() if self._rank(ready.lane, ready.oldest) != ready.rank]
        for ready in changed:
            self._remove(ready)
            self._insert(ReadyLane(ready.lane, ready.oldest, ready.size, self._rank(ready.lane, ready.oldest)))

    def _rank(self, lane: Lane, oldest: TaskId) -> int:
        return lane_rank(lane, oldest, self._ranked_at, self._ageing)

    def _insert(self, ready: ReadyLane) -> None:
        lane = ready.lane
        self._lanes[lane.id] = ready
        self.classes[lane.requirement_id] += 1
        if lane.requirement.subjects:
            self.subject_requirements[lane.requirement_id] = lane.requirement
        row = self._ranks.setdefault(ready.rank, {}).setdefault(lane.project, [])
        insort(row, (ready.oldest, lane.id, ready))

    def _remove(self, ready: ReadyLane) -> None:
        lane = ready.lane
        del self._lanes[lane.id]
        self.classes[lane.requirement_id] -= 1
        if not self.classes[lane.requirement_id]:
            del self.classes[lane.requirement_id]
            self.subject_requirements.pop(lane.requirement_id, None)
        projects = self._ranks[ready.rank]
        row = projects[lane.project]
        # By the first two of each: the pair is found just before its own entry.
        del row[bisect_left(row, (ready.oldest, lane.id))]
        if not row:
            del projects[lane.project]
            if not projects:
                del self._ranks[ready.rank]
