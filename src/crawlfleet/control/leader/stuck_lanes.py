"""Reports lanes of which no task was placed for long: one event each, with the explanation that `why` gives."""

from __future__ import annotations

from collections.abc import Container, Iterable

from crawlfleet.control.leader.cluster_view import Sight
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import LaneId, Requirement
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore
from crawlfleet.scheduling.placement.stuck_lanes import Stuck


class StuckLanes:
    def __init__(self, *, store: EventStore, clock: Clock, sight: Sight) -> None:
        self._store = store
        self._clock = clock
        self._sight = sight
        self._stuck = Stuck()

    def clear(self) -> None:
        """Forget everything of an earlier term."""
        self._stuck.clear()

    def served(self, lanes: Iterable[LaneId]) -> None:
        self._stuck.served(lanes)

    async def tell(self, blocked: Container[Requirement], term: int, now: Instant) -> None:
        """Report stuck lanes after a pass. `blocked` classes, which no node would ever take, were reported before."""
        sight, stuck, at = self._sight, self._stuck, self._clock.monotonic()
        told = {}
        for ready in stuck.look(sight.order, sight.paused, at):
            lane, found = ready.lane, sight.why_stuck(ready.lane)
            if found is None or (found.cause == "no_node" and lane.requirement in blocked):
                stuck.postpone(lane.id, at)
                continue
            told[lane.id] = {
                "queue": lane.queue,
                "project": lane.project,
                "task_type": lane.requirement.task_type,
                "priority": lane.priority,
                "task": ready.oldest,
                "cause": found.cause,
                "why": found.sentence,
                "waited_s": stuck.waited_s(lane.id, at),
            }
        if told:
            await self._store.record([EventBatch(Kind.TASKS_STUCK, shared=said) for said in told.values()], now, term)
            for lane_id in told:
                stuck.tell(lane_id)
