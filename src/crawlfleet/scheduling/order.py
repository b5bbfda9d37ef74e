"""The order in which lanes are served: priority, raised by age, then first in first out.

Every `step_s` a lane's head has waited lifts it by one, up to the highest priority. There the older head wins, so
that nothing waits for ever behind fresh work, while a fresh 10 still goes before a fresh 9.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.ids import TaskId, made_at
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MAX
from crawlfleet.model.requirement import Lane, LaneId


@dataclass(frozen=True, slots=True)
class Ageing:
    step_s: float = 60.0
    """Seconds of waiting for one step up; infinite: no ageing."""
    highest: int = PRIORITY_MAX

    def __post_init__(self) -> None:
        if not self.step_s > 0:
            raise ValueError("step_s must be above 0")


class LaneView(NamedTuple):
    lane: LaneId
    priority: int
    head: TaskId
    size: int
    turns: int = 0
    """Quanta it has had in this pass: lanes of one rank take turns, whatever their heads."""
    highest: int = PRIORITY_MAX


def effective_priority(priority: int, head_made_at: Instant, now: Instant, ageing: Ageing) -> int:
    lifted = priority + int((now - head_made_at) / 1000 / ageing.step_s)
    # Never lowered: a head from the future (another master's clock, or ours set back) has waited no time.
    return max(priority, min(ageing.highest, lifted))


class LaneHeap:
    """Lanes of one pass, best first. Pop a lane, take its quantum, push it again with its new head."""

    __slots__ = ("_ageing", "_heap", "_now")

    def __init__(self, now: Instant, ageing: Ageing, views: Iterable[LaneView] = ()) -> None:
        self._now = now
        self._ageing = ageing
        self._heap = [self._entry(view) for view in views if view.size > 0]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, view: LaneView) -> None:
        """An empty lane has no turn and is left out."""
        if view.size > 0:
            heapq.heappush(self._heap, self._entry(view))

    def pop(self) -> LaneView:
        """Raises IndexError when no lane is left."""
        return heapq.heappop(self._heap)[3]

    def _entry(self, view: LaneView) -> tuple[int, int, TaskId, LaneView]:
        rank = effective_priority(view.priority, made_at(view.head), self._now, self._ageing)
        return -min(rank, view.highest), view.turns, view.head, view


def lanes_in_order(views: Iterable[LaneView], now: Instant, ageing: Ageing) -> list[LaneView]:
    """Best first, without empty lanes."""
    heap = LaneHeap(now, ageing, views)
    return [heap.pop() for _ in range(len(heap))]


def lane_rank(lane: Lane, oldest: TaskId, now: Instant, ageing: Ageing) -> int:
    return min(lane.highest_rank, effective_priority(lane.priority, made_at(oldest), now, ageing))
