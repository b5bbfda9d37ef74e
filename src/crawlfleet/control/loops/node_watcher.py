"""Judges the health of nodes from what they measure, and keeps a sample a minute for history."""

from __future__ import annotations

import msgspec

from crawlfleet.control.lead import Lead
from crawlfleet.control.loops.loop import LeaderLoop
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.scheduling.health import HealthState, Thresholds, next_health

SAMPLE_S = 60.0
_WATCHED = (NodeStatus.ONLINE, NodeStatus.MAINTENANCE)
_encode = msgspec.json.Encoder().encode


class NodeWatcher(LeaderLoop):
    name = "node_watcher"
    pause_s = 2.0

    def __init__(self, *, store: NodeStore, clock: Clock, lead: Lead, thresholds: Thresholds | None = None) -> None:
        super().__init__(clock, lead)
        self._store = store
        self._thresholds = thresholds or Thresholds()
        self._states: dict[NodeId, HealthState] = {}
        self._sampled_at = float("-inf")

    async def run_term(self, term: int, now: Instant) -> object:
        at = self._clock.monotonic()
        nodes = [node for node in await self._store.nodes() if node.status in _WATCHED and node.measurement]
        states: dict[NodeId, HealthState] = {}
        changes = []
        for node in nodes:
            assert node.measurement is not None
            before = self._states.get(node.id) or HealthState(status=node.health)
            state = states[node.id] = next_health(before, node.measurement, at, self._thresholds)
            if state.status is not node.health:
                changes.append((node.id, state.status, state.details))
        self._states = states
        await self._store.set_health(changes, term, now)
        if at - self._sampled_at >= SAMPLE_S:
            samples = [(node.id, _encode(node.measurement)) for node in nodes]
            if samples:
                await self._store.note_heartbeats(samples, term, now)
            self._sampled_at = at
        return None
