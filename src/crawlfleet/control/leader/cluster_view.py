"""The leader's view of the cluster: nodes, queues, projects, and the lanes that have something to place.

All of it is a cache. Once a second, and whenever a change is signalled, the leader *refreshes* it: it reads nodes,
queues, projects and the heads of lanes from the store. In between it *applies changes*: windows that changed, and nodes
that hold something else than before. So a pass costs what has happened, not what there is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import exhausted_daily_quotas
from crawlfleet.control.leader.node_states import node_state
from crawlfleet.control.leader.placement_context import PlacementContext
from crawlfleet.control.leader.pull_tracker import PullTracker
from crawlfleet.control.leader.queue_ordering import QueueOrders
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.errors import InvariantBroken
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster, Node
from crawlfleet.model.project import Project
from crawlfleet.model.queue import Lane, LaneId, Queue
from crawlfleet.model.requirement import Requirement
from crawlfleet.ports.broker import Broker, Window
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.queue_store import PlacementView
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.explain.task import PlacementExplanation, explain_placement
from crawlfleet.scheduling.nodes.health import trial_slots
from crawlfleet.scheduling.placement.dispatch_round import DispatchRound, RoundInputs, RoundLimits, RoundPlan
from crawlfleet.scheduling.placement.fair_shares import FairSharesByRank
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Cursors, Placer
from crawlfleet.scheduling.placement.pull_slots import pull_slots
from crawlfleet.scheduling.placement.shared_machines import share_machines, sum_reserved
from crawlfleet.scheduling.placement.stuck_lanes import StuckReason, explain_stuck_lane
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation

MAX_IDS_IN_WINDOWS = 200_000
"""Limit on the task ids in all windows together, roughly: with many lanes each window is smaller."""
MIN_WINDOW = 500
REFILL_BELOW = 500
"""Size below which a window is reloaded, if the store has more of its lane."""
LANES_PER_PASS = 200
"""Lanes without a window that get one before the next round: a new leader does not wait for all of them."""


class ClusterView:
    """The leader's cache of what a dispatch round goes by; see above for when it is refreshed."""

    def __init__(
        self,
        *,
        store: PlacementStore,
        broker: Broker,
        clock: Clock,
        ledger: SlotLedger,
        rng: Random,
        configure: Configure,
        orders: QueueOrders,
        context: PlacementContext,
        ageing: Ageing,
        max_window: int,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._ledger = ledger
        self._rng = rng
        self._configure = configure
        self._orders = orders
        self._evidence, self._strategies = context.evidence, context.strategies
        self._max_window = max_window
        self.lane_order = LaneOrder(ageing)
        self.nodes: Sequence[Node] = ()
        self.paused_queues: set[str] = set()
        self.default_strategy = ""
        """Strategy of tasks that name none."""
        self.pulls = PullTracker()
        self._pull_nodes: dict[NodeId, Node] = {}
        """Nodes that only pull, with the slots they have during a pull."""
        self._placer = Placer((), rng=rng)
        self._deep_windows: dict[LaneId, int] = {}
        """Number of ids in each window behind which the store has more tasks."""
        self._clusters: Mapping[str, Cluster] = {}
        self._projects: dict[str, Project] = {}
        self._exhausted_quotas: Mapping[str, DailyQuotaViolation] = {}
        self._lifo_queues: frozenset[str] = frozenset()
        """Queues whose windows are newest first."""
        self._shares = FairSharesByRank()
        self._cursors: Cursors = {}
        self._lanes: dict[LaneId, Lane] = {}
        self._oldest_tasks: Mapping[LaneId, TaskId] = {}
        self._lanes_without_window: list[LaneId] = []
        self._resolved: dict[Requirement, Requirement] = {}

    @property
    def has_lanes_without_window(self) -> bool:
        """Whether lanes still wait for a window."""
        return bool(self._lanes_without_window)

    @property
    def unknown_strategies(self) -> set[str]:
        """Names of strategies that tasks asked for and this master does not have."""
        return self._placer.unknown_strategies

    def get_lane(self, lane: LaneId) -> Lane:
        return self._lanes[lane]

    def is_lifo(self, lane: LaneId) -> bool:
        return self._orders.is_lifo(self._lanes[lane])

    def project_fences(self, lanes: Iterable[LaneId]) -> dict[str, int]:
        """The fence up to which this leader's count of each project is valid. Empty where no project is configured:
        then there is nothing to compare, and the store is spared the read."""
        if not self._projects:
            return {}
        projects = {self._lanes[lane].project for lane in lanes}
        return {name: self._projects[name].fence if name in self._projects else 0 for name in projects}

    def reset(self) -> None:
        """Forget what belongs to an earlier term."""
        self._projects = {}
        self._shares = FairSharesByRank()
        self.pulls.clear()

    # -- reading the store and the ready index

    async def refresh(self) -> None:
        """Read nodes, queues, projects and lanes from the store."""
        await self._configure.refresh()
        view = await self._store.placement_view()
        await self._load_projects(view.projects)
        self._exhausted_quotas = await exhausted_daily_quotas(self._store, view.projects, self._clock.now())
        await self._load_queues(view.queues)
        self.pulls.update_pulls(view.pulls, self._clock.monotonic())
        self._load_nodes(view.nodes, view.clusters)
        self._oldest_tasks = view.ready_heads
        window_heads = {window.lane: window.head for window in await self._broker.ready_index.list_windows()}
        await self._load_lanes(view.ready_heads)
        behind = [lane for lane in view.ready_heads if _is_behind(window_heads.get(lane, 0), lane, view)]
        self._lanes_without_window = sorted(
            behind, key=lambda lane: (-self._lanes[lane].priority, view.ready_heads[lane])
        )
        await self._load_missing_windows()
        windows = await self._broker.ready_index.list_windows()
        for gone in {ready.lane.id for ready in self.lane_order} - {window.lane for window in windows}:
            self.lane_order.remove_lane(gone)
        self._deep_windows.clear()
        await self._apply_windows(windows)

    async def apply_changes(self, term: int, now: Instant) -> None:
        """Apply what happened since; cheap, to be called before every round."""
        await self._load_missing_windows()
        await self._apply_windows(await self._broker.ready_index.pop_changed_windows())
        self._placer.knowledge = await self._evidence.for_pass(self.lane_order.subject_requirements.values(), term, now)
        changed = apply_ledger_changes(self._placer, self._ledger)
        if self._pull_nodes:
            self._set_pull_slots(changed & self._pull_nodes.keys())

    async def load_pulls(self) -> bool:
        """Read the open pulls alone. False when they do not fit the nodes as they were read last, or their conditions
        are new: then the view has to be refreshed."""
        changed = self.pulls.update_pulls(await self._store.open_pulls(), self._clock.monotonic())
        for node_id in self.pulls.new_nodes:
            node, state = self._pull_nodes.get(node_id), self._placer.find_state(node_id)
            if node is None or state is None or state.seat < 0:
                return False
            is_open = self.pulls.find_open(node, self._clock.monotonic()) is not None
            if not is_open or self.pulls.last_filter(node_id) != state.pull_filter:
                return False
        self._set_pull_slots(changed & self._pull_nodes.keys())
        return True

    def _set_pull_slots(self, nodes: Iterable[NodeId]) -> None:
        now_mono, ledger = self._clock.monotonic(), self._ledger
        for node_id in nodes:
            node, state = self._pull_nodes[node_id], self._placer.find_state(node_id)
            if state is None:
                continue
            pull, held = self.pulls.find_open(node, now_mono), ledger.holds_on(node_id)
            slots = 0 if pull is None else pull_slots(pull, node.slots, held)
            if state.is_on_trial:
                slots = min(slots, trial_slots(len(held), ledger.since_assignment_s(node_id, now_mono)))
            self._placer.set_pull(node_id, slots, is_pulling=pull is not None)

    async def _load_projects(self, projects: Sequence[Project]) -> None:
        """Load projects; before a fence counts, the ledger has everything that was assigned by hand up to it."""
        before, self._projects = self._projects, {project.name: project for project in projects}
        changed = [
            project.name
            for project in projects
            if project.quotas.limits_running
            and (project.name not in before or before[project.name].fence != project.fence)
        ]
        if not changed:
            return
        try:
            rows = await self._store.held_in(changed)
            await self._load_lanes({row.lane for row in rows})
        except BaseException:
            self._projects = before
            raise
        now_mono = self._clock.monotonic()
        for row in rows:
            lane = self._lanes[row.lane]
            self._ledger.hold_one(row.node, row.execution, lane.requirement, now_mono, lane.project)

    async def _load_queues(self, queues: Sequence[Queue]) -> None:
        self.paused_queues = {queue.name for queue in queues if queue.is_paused}
        before, self._lifo_queues = self._lifo_queues, self._orders.update_queues(queues)
        if changed := before ^ self._lifo_queues:
            # Their windows are the wrong way round: the refresh loads them anew.
            lanes = [window.lane for window in await self._broker.ready_index.list_windows()]
            await self._load_shown_lanes(lanes)
            await self._broker.ready_index.drop_windows([lane for lane in lanes if self._lanes[lane].queue in changed])

    def _load_nodes(self, nodes: Sequence[Node], clusters: Sequence[Cluster]) -> None:
        configure, ledger = self._configure, self._ledger
        now_mono = self._clock.monotonic()
        self._pull_nodes = {
            node.id: configure.with_effective_slots(node, is_pulling=True)
            for node in nodes
            if node.description.is_pull_only
        }
        self.nodes = [
            configure.with_effective_slots(node) if node.id not in self._pull_nodes else self._pull_nodes[node.id]
            for node in nodes
        ]
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self.default_strategy = configure.cached_config(DEFAULT_CLUSTER).settings.strategy
        self._resolved = {}
        ledger.pop_changes()
        states = [
            node_state(
                node,
                self._clusters,
                ledger,
                now_mono,
                pull=self.pulls.find_open(node, now_mono) if node.id in self._pull_nodes else None,
                pull_filter=self.pulls.last_filter(node.id),
            )
            for node in self.nodes
        ]
        share_machines(states)
        self._placer = Placer(
            states,
            rng=self._rng,
            default_strategy=self.default_strategy,
            cursors=self._cursors,
            overcommit=configure.cached_config(DEFAULT_CLUSTER).settings.overcommit,
            strategies=self._strategies.factories,
        )

    async def _load_missing_windows(self) -> None:
        if self._lanes_without_window:
            await self.load_windows(self._lanes_without_window[:LANES_PER_PASS])
            del self._lanes_without_window[:LANES_PER_PASS]

    async def load_windows(self, lanes: Sequence[LaneId]) -> None:
        """Load the windows of the lanes into the ready index, as the store has them now."""
        limit = min(self._max_window, max(MIN_WINDOW, MAX_IDS_IN_WINDOWS // max(1, len(self.lane_order))))
        newest = [lane for lane in lanes if self.is_lifo(lane)]
        oldest = [lane for lane in lanes if lane not in newest] if newest else lanes
        for lane, tasks in (await self._store.ready_parts(oldest, newest, limit)).items():
            await self._broker.ready_index.refill_window(lane, tasks, is_deep=len(tasks) == limit)

    async def refill_windows(self, placed: Mapping[LaneId, Sequence[NodeState]]) -> bool:
        """Reload windows that a round left low; True if there were any."""
        deep = self._deep_windows
        low_lanes = [lane for lane, nodes in placed.items() if lane in deep and deep[lane] - len(nodes) < REFILL_BELOW]
        low_lanes += [lane for lane, size in deep.items() if not size]
        if low_lanes:
            await self.load_windows(low_lanes)
        return bool(low_lanes)

    async def _apply_windows(self, windows: Sequence[Window]) -> None:
        # One that was dropped is told of once more.
        windows = [window for window in windows if window.size or window.is_deep or window.lane in self._lanes]
        await self._load_shown_lanes([window.lane for window in windows])
        for window in windows:
            lane = self._lanes[window.lane]
            # Age counts from the oldest task: behind a window that is newest first, that is the store's.
            oldest = self._oldest_tasks.get(window.lane, window.head) if self._orders.is_lifo(lane) else window.head
            self.lane_order.update_lane(lane, oldest, window.size)
            if window.is_deep:
                self._deep_windows[window.lane] = window.size
            else:
                self._deep_windows.pop(window.lane, None)

    async def _load_shown_lanes(self, lanes: Sequence[LaneId]) -> None:
        """Load lanes that only the ready index names: a hint that comes days late names a lane whose row is gone."""
        try:
            await self._load_lanes(lanes)
        except InvariantBroken:
            await self._broker.ready_index.drop_windows([lane for lane in lanes if lane not in self._lanes])
            raise

    async def _load_lanes(self, lanes: Iterable[LaneId]) -> None:
        unknown = [lane for lane in lanes if lane not in self._lanes]
        if unknown:
            self._lanes.update((lane.id, lane) for lane in await self._store.load_lanes(unknown))

    # -- rounds

    def plan_round(self, limits: RoundLimits, now: Instant) -> RoundPlan:
        self._placer.begin_pass()
        inputs = RoundInputs(self._projects, self._ledger.project_use, self.paused_queues, self._exhausted_quotas)
        return DispatchRound(self._placer, self._shares, inputs, limits, self.with_strategy).plan_round(
            self.lane_order, now
        )

    def place_elsewhere(self, node: NodeId, lane: Lane) -> NodeState | None:
        """Place one more task of the lane on another node than this one; None when no other has room."""
        return self._placer.place_elsewhere(node, self.with_strategy(lane.requirement), lane.project, lane.priority)

    def infeasible_classes(self, served: Container[LaneId]) -> dict[Requirement, Lane]:
        """The classes of tasks that have no feasible node, each with a waiting lane that was not served."""
        placer = self._placer
        lanes = {
            (
                ready.lane.requirement_id,
                ready.lane.project if ready.lane.project in placer.reserved_projects else "",
            ): ready.lane
            for ready in self.lane_order
            if ready.lane.id not in served
        }
        infeasible: dict[Requirement, Lane] = {}
        for lane in lanes.values():
            requirement = lane.requirement
            if requirement in infeasible:
                continue
            if placer.has_no_feasible_node(self.with_strategy(requirement), lane.project):
                infeasible[requirement] = lane
        return infeasible

    def explain_placement(self, lane: Lane) -> PlacementExplanation:
        """Why tasks of the lane find no node, or how many nodes could take one."""
        return explain_placement(
            lane.requirement, lane.project, self._placer.states, self._placer.overcommit, lane.priority
        )

    def explain_stuck_lane(self, lane: Lane) -> StuckReason | None:
        """Why nothing of the lane was placed by the last round; None when it waits for its turn."""
        return explain_stuck_lane(
            lane,
            self._projects.get(lane.project),
            self._ledger.project_use,
            self._placer,
            self._exhausted_quotas.get(lane.project),
        )

    def with_strategy(self, requirement: Requirement) -> Requirement:
        """The requirement with the strategy of the cluster it names; the default cluster's is the placer's own."""
        resolved = self._resolved.get(requirement)
        if resolved is None:
            resolved = self._resolved[requirement] = self._resolve_strategy(requirement)
        return resolved

    def _resolve_strategy(self, requirement: Requirement) -> Requirement:
        if requirement.strategy is not None or requirement.cluster is None:
            return requirement
        strategy = self._configure.cached_config(requirement.cluster).settings.strategy
        return requirement if strategy == self.default_strategy else replace(requirement, strategy=strategy)


def apply_ledger_changes(placer: Placer, ledger: SlotLedger) -> set[NodeId]:
    """Correct the placer by the ledger's changes; nodes of one machine share what all of them reserve. Returns the
    nodes that changed."""
    ended, doubted = ledger.pop_changes()
    placer.release_tasks(ended)
    for node in doubted:
        machine = placer.machine_nodes(node)
        parts = (ledger.reserved_on(state.node.id) for state in machine)
        placer.set_held(node, len(ledger.holds_on(node)), sum_reserved(parts) if machine else ledger.reserved_on(node))
    return doubted | {node for node, _ in ended}


def _is_behind(head: TaskId, lane: LaneId, view: PlacementView) -> bool:
    """Whether a committed task before the window was never offered: in a busy lane its turn would never come."""
    newest = view.ready_ends.get(lane)
    return not head or (view.ready_heads[lane] < head if newest is None else newest > head)
