"""Finds lanes of which no task was placed for long: each is reported once, until one of its tasks is placed again."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from crawlfleet.model.project import Project, Use
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.scheduling.explain.task import explain_placement
from crawlfleet.scheduling.placement.lane_order import ReadyLane
from crawlfleet.scheduling.placement.placer import Placer
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation
from crawlfleet.scheduling.quotas.project_quota import Allowance

STUCK_S = 30.0
MAX_EXPLAINED = 10
"""Lanes that are explained at a time, as each explanation looks at every node; the others follow later."""


class StuckReason(NamedTuple):
    """The reason why nothing of a lane is placed, in the words of `why`."""

    cause: str
    sentence: str


def explain_stuck_lane(
    lane: Lane,
    project: Project | None,
    use: Callable[[str], Use],
    placer: Placer,
    exhausted: DailyQuotaViolation | None = None,
) -> StuckReason | None:
    """Why nothing of the lane is placed; None for a lane that only waits for its turn. `exhausted` is the daily quota
    of which its project has none left."""
    if project is not None and (project.quotas.limits_running or exhausted is not None):
        violation = Allowance(project, use(lane.project), exhausted).violation(lane.requirement)
        if violation is not None:
            return StuckReason("quota", violation.sentence)
    explanation = explain_placement(lane.requirement, lane.project, placer.states, placer.overcommit, lane.priority)
    return None if explanation.able else StuckReason("no_node", explanation.sentence)


class StuckLaneTracker:
    """Tracks since when no task of a lane was placed, and which lanes were reported."""

    def __init__(self) -> None:
        self._since: dict[LaneId, float] = {}
        self._reported: set[LaneId] = set()

    def clear(self) -> None:
        self._since.clear()
        self._reported.clear()

    def record_served(self, lanes: Iterable[LaneId]) -> None:
        for lane in lanes:
            self._since.pop(lane, None)
            self._reported.discard(lane)

    def overdue_lanes(self, waiting: Iterable[ReadyLane], paused: Container[str], now_mono: float) -> list[ReadyLane]:
        """The lanes to be explained now. Lanes of a queue that a person paused never count."""
        since, ready_lanes = self._since, {ready.lane.id: ready for ready in waiting if ready.lane.queue not in paused}
        self._since = {lane: since.get(lane, now_mono) for lane in ready_lanes}
        self._reported &= ready_lanes.keys()
        overdue = [
            lane for lane, began in self._since.items() if now_mono - began >= STUCK_S and lane not in self._reported
        ]
        return [ready_lanes[lane] for lane in overdue[:MAX_EXPLAINED]]

    def waited_s(self, lane: LaneId, now_mono: float) -> int:
        return int(now_mono - self._since[lane])

    def mark_reported(self, lane: LaneId) -> None:
        self._reported.add(lane)

    def postpone_lane(self, lane: LaneId, now_mono: float) -> None:
        """Let the lane wait anew, as there is nothing to report: the others come first."""
        self._since[lane] = now_mono
