"""Raises and lowers the slots of nodes by the load they measure, where a person or their cluster configured that.

Only the number of slots changes: nothing that runs is stopped for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import exhausted_daily_quotas
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.node_states import node_state
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import SlotChange
from crawlfleet.ports.queue_store import PlacementView
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.nodes.slot_scaling import LoadLimits, LoadState, NodeLoad, next_slots
from crawlfleet.scheduling.placement.filters import CLASS_FILTERS, NODE_FILTERS, Ask, NodeState, has_no_room
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.quotas.project_quota import project_allowances

_FILTERS_BUT_SLOTS = (*CLASS_FILTERS, *NODE_FILTERS, has_no_room)
"""All filters but the one on free slots."""


@dataclass(frozen=True, slots=True)
class ScaleReport:
    raised: int = 0
    lowered: int = 0

    def __bool__(self) -> bool:
        return False


class Scaler(LeaderLoop):
    name = "scaler"
    pause_s = 5.0

    def __init__(
        self,
        *,
        store: PlacementStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        ledger: SlotLedger,
        configure: Configure,
        limits: LoadLimits | None = None,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._configure = configure
        self._limits = limits or LoadLimits()
        self._states: dict[NodeId, LoadState] = {}

    async def run_term(self, term: int, now: Instant) -> ScaleReport:
        await self._configure.refresh()
        view = await self._store.placement_view()
        following = [node for node in view.nodes if self._follows_load(node)]
        if not following:
            self._states.clear()
            return ScaleReport()
        asks = await self._waiting_asks(view, now)
        clusters = {cluster.name: cluster for cluster in view.clusters}
        states = {
            node.id: node_state(self._configure.with_effective_slots(node), clusters, self._ledger)
            for node in view.nodes
        }
        share_machines(list(states.values()))
        judged = {node.id: self._judge_node(node, states[node.id], asks) for node in following}
        report = await self._write_changes([change for _, change in judged.values() if change is not None], term, now)
        # Only now: a change that could not be written is judged again.
        self._states = {node: state for node, (state, _) in judged.items()}
        return report

    def _follows_load(self, node: Node) -> bool:
        is_there = node.status is NodeStatus.ONLINE and node.is_session_open and node.measurement is not None
        return is_there and not node.description.is_pull_only and self._configure.follows_load(node)

    async def _waiting_asks(self, view: PlacementView, now: Instant) -> Sequence[Ask]:
        """The classes of tasks that wait and may run, each once."""
        lanes, paused = await self._store.load_lanes(list(view.ready_heads)), view.paused_queues
        overcommit = self._configure.cached_config(DEFAULT_CLUSTER).settings.overcommit
        exhausted = await exhausted_daily_quotas(self._store, view.projects, now)
        allowances_left = project_allowances(view.projects, self._ledger.project_use, exhausted)
        asks = {Ask(lane.requirement, lane.project, overcommit) for lane in lanes if lane.queue not in paused}
        return [
            ask
            for ask in asks
            if ask.project not in allowances_left or allowances_left[ask.project].count_allowed(ask.requirement)
        ]

    def _judge_node(self, node: Node, state: NodeState, asks: Sequence[Ask]) -> tuple[LoadState, SlotChange | None]:
        assert node.measurement is not None
        is_full = state.held >= state.slots
        is_wanted = is_full and any(not any(refuses(state, ask) for refuses in _FILTERS_BUT_SLOTS) for ask in asks)
        settings = self._configure.cached_config(node.description.cluster).settings
        bounds = settings.slots_min, settings.slots_max
        node_load = NodeLoad(node.measurement, state.slots, is_full, is_wanted)
        now_mono = self._clock.monotonic()
        load, resize = next_slots(self._states.get(node.id, LoadState()), node_load, now_mono, bounds, self._limits)
        return load, None if resize is None else SlotChange(node.id, state.slots, resize.slots, resize.reason)

    async def _write_changes(self, changes: Sequence[SlotChange], term: int, now: Instant) -> ScaleReport:
        changed = await self._store.scale_slots(changes, term, now)
        if not changed:
            return ScaleReport()
        await self._broker.signals.send_signals([*(node_topic(node) for node in sorted(changed)), LOOK, LEADER])
        raised = sum(change.slots > change.had for change in changes if change.node in changed)
        report = ScaleReport(raised, len(changed) - raised)
        log.info("slots_scaled", raised=report.raised, lowered=report.lowered)
        return report
