"""Judges the health of nodes from what they measure and from their faults, and keeps a sample a minute for history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Node
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import HealthChange, NodeStore
from crawlfleet.scheduling.nodes.health import HealthState, next_health, stored_health
from crawlfleet.scheduling.nodes.node_faults import HostReach, NodeFaults, ProcessFaults, SilenceDetector

SAMPLE_S = 60.0
_WATCHED = (NodeStatus.ONLINE, NodeStatus.MAINTENANCE)
_encode = msgspec.json.Encoder().encode


class NodeWatcher(LeaderLoop):
    name = "node_watcher"
    pause_s = 2.0

    def __init__(
        self,
        *,
        store: NodeStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        configure: Configure,
        reach: HostReach,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._configure = configure
        self._reach = reach
        self._processes = ProcessFaults()
        self._silence = SilenceDetector()
        self._states: dict[NodeId, HealthState] = {}
        self._sampled_at = float("-inf")

    async def run_term(self, term: int, now: Instant) -> object:
        now_mono = self._clock.monotonic()
        await self._configure.refresh()
        nodes = [
            node
            for node in await self._store.load_nodes()
            if node.status in _WATCHED and node.is_session_open and node.measurement
        ]
        before = self._remembered_states(nodes)
        faults = self._faults(nodes, now_mono)
        states: dict[NodeId, HealthState] = {}
        changes = []
        for node in nodes:
            assert node.measurement is not None
            thresholds = self._configure.cached_config(node.description.cluster).settings.health_thresholds()
            state = next_health(before[node.id], node.measurement, now_mono, thresholds, faults[node.id])
            states[node.id] = state
            if state.status is not node.health or _summary(state.details) != _summary(node.health_details):
                changes.append(HealthChange(node.id, node.health, state.status, state.details))
        await self._store.set_health(changes, term, now)
        self._states = states
        if any(change.health is not change.had for change in changes):
            # Before anything more is placed by the old judgement.
            await self._broker.signals.send_signals([LOOK, LEADER])
        if now_mono - self._sampled_at >= SAMPLE_S:
            samples = [(node.id, _encode(node.measurement)) for node in nodes]
            if samples:
                await self._store.add_heartbeats(samples, term, now)
            self._sampled_at = now_mono
        return None

    def _remembered_states(self, nodes: Sequence[Node]) -> dict[NodeId, HealthState]:
        """The remembered state of each node, as far as the store still agrees with it."""
        ids = {node.id for node in nodes}
        self._processes.keep_nodes(ids)
        self._reach.keep_nodes(ids)
        states = {}
        for node in nodes:
            state = self._states.get(node.id)
            if state is None or state.status is not node.health:
                state = stored_health(node)
                if node.health is Health.UNKNOWN:
                    # Its health was cleared by a person or by a new session: so is what it was based on.
                    self._processes.forget_node(node.id)
                    self._reach.forget_node(node.id)
            states[node.id] = state
        return states

    def _faults(self, nodes: Sequence[Node], now_mono: float) -> dict[NodeId, NodeFaults]:
        for node in nodes:
            if node.measurement is not None:
                self._processes.record_ends(node.id, node.measurement.ends, now_mono)
        crash_rates, network_rates = self._processes.fault_rates(now_mono), self._reach.fault_rates(now_mono)
        renewals = {node.id: (node.session, node.renewals, node.description.lease_ms / 1000) for node in nodes}
        silent = self._silence.silent_nodes(renewals, now_mono)
        return {
            node.id: NodeFaults(crash_rates.get(node.id, 0.0), network_rates.get(node.id, 0.0), node.id in silent)
            for node in nodes
        }


def _summary(details: Mapping[str, Any]) -> object:
    """The part of a judgement whose change is worth writing: figures change with every pass."""
    reasons = [(reason.get("rule"), reason.get("level")) for reason in details.get("reasons", ())]
    return sorted(map(str, reasons)), bool(details.get("is_recovering"))
