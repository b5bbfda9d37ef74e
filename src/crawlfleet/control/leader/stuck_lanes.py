"""Reports lanes of which no task was placed for long: one event each, with the explanation that `why` gives."""

from __future__ import annotations

from collections.abc import Container, Iterable

from crawlfleet.control.leader.cluster_view import ClusterView
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore
from crawlfleet.scheduling.placement.stuck_lanes import StuckLaneTracker


class StuckLaneReporter:
    def __init__(self, *, store: EventStore, clock: Clock, view: ClusterView) -> None:
        self._store = store
        self._clock = clock
        self._view = view
        self._tracker = StuckLaneTracker()

    def clear(self) -> None:
        """Forget everything of an earlier term."""
        self._tracker.clear()

    def record_served(self, lanes: Iterable[LaneId]) -> None:
        self._tracker.record_served(lanes)

    async def report_stuck(self, blocked: Container[Requirement], term: int, now: Instant) -> None:
        """Report stuck lanes after a pass. `blocked` classes, which no node would ever take, were reported before."""
        view, tracker, now_mono = self._view, self._tracker, self._clock.monotonic()
        reports = {}
        for ready in tracker.overdue_lanes(view.lane_order, view.paused_queues, now_mono):
            lane, reason = ready.lane, view.explain_stuck_lane(ready.lane)
            if reason is None or (reason.cause == "no_node" and lane.requirement in blocked):
                tracker.postpone_lane(lane.id, now_mono)
                continue
            reports[lane.id] = {
                "queue": lane.queue,
                "project": lane.project,
                "task_type": lane.requirement.task_type,
                "priority": lane.priority,
                "task": ready.oldest,
                "cause": reason.cause,
                "why": reason.sentence,
                "waited_s": tracker.waited_s(lane.id, now_mono),
            }
        if reports:
            await self._store.record_events(
                [EventBatch(Kind.TASKS_STUCK, shared=shared) for shared in reports.values()], now, term
            )
            for lane_id in reports:
                tracker.mark_reported(lane_id)
