"""Preempts: recalls preemptible tasks so that more important ones, which found no free capacity, can run.

It reads the store only while something of high priority waits and something preemptible is held. Earlier recalls are
read from there too, so that a new leader neither recalls twice for one task nor forgets the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import exhausted_daily_quotas
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.node_states import node_state
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model.ids import NodeId, TaskId, made_at
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MIN
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.status import Recall
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.queue_store import PlacementView, Preemption
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, lane_rank
from crawlfleet.scheduling.placement.preemption import (
    FreedCapacity,
    PreemptibleTask,
    PreemptionRules,
    WaitingLane,
    plan_preemptions,
)
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation
from crawlfleet.scheduling.quotas.project_quota import project_allowances

BUDGET_WINDOW_MS = 60_000
MAX_RECALLS = 100
"""Limit on the recalls of one pass: the next is a second away."""
MAX_NODES = 200
"""Nodes looked at in one pass, drawn anew each time: a large installation is not read whole every second."""
MAX_LANES = 500


@dataclass(frozen=True, slots=True)
class PreemptReport:
    recalled: int = 0
    waiters: int = 0

    def __bool__(self) -> bool:
        return False


class Preempter(LeaderLoop):
    name = "preempter"
    pause_s = 1.0

    def __init__(
        self,
        *,
        store: PlacementStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        ledger: SlotLedger,
        configure: Configure,
        rng: Random,
        ageing: Ageing | None = None,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._configure = configure
        self._rng = rng
        self._ageing = ageing or Ageing()
        self._waiting_since: dict[LaneId, float] = {}
        """Monotonic time since which each lane of high priority has had waiting tasks without a break."""

    async def run_term(self, term: int, now: Instant) -> PreemptReport:
        await self._configure.refresh()
        settings = self._configure.cached_config(DEFAULT_CLUSTER).settings
        rules = PreemptionRules(min_rank_gap=settings.preemption_gap)
        if not settings.preemption or not await self._may_preempt(rules):
            return PreemptReport()
        stopping = await self._store.stopping_executions()
        per_minute = settings.preemptions_per_minute
        recent_preemptions = await self._store.preemptions_since(now - BUDGET_WINDOW_MS)
        budget = min(MAX_RECALLS, per_minute - recent_preemptions, per_minute - len(stopping))
        if budget <= 0:
            return PreemptReport()
        view = await self._store.placement_view()
        lanes = await self._load_lanes([*view.ready_heads, *(held_task.lane for held_task in stopping)])
        exhausted = await exhausted_daily_quotas(self._store, view.projects, now)
        waiting = await self._waiting_lanes(view, lanes, exhausted, now)
        states = self._node_states(view)
        held = await self._preemptible_tasks(waiting, states, now)
        stopping_tasks = [(held_task.node, lanes[held_task.lane].requirement) for held_task in stopping]
        freed = plan_preemptions(
            waiting,
            states,
            [held_task for held_task, _ in held.values()],
            stopping_tasks,
            budget=budget,
            rules=rules,
            overcommit=settings.overcommit,
            allowances=project_allowances(view.projects, self._ledger.project_use, exhausted),
        )
        waiters = await self._waiters(freed, view)
        return await self._recall(freed, waiters, {task: row for task, (_, row) in held.items()}, term, now)

    async def _may_preempt(self, rules: PreemptionRules) -> bool:
        """Whether a pass may preempt anything. Cheap, as every installation checks it every second."""
        if not self._ledger:
            self._waiting_since.clear()
            return False
        ready = await self._load_lanes(await self._store.ready_lanes())
        high = {lane.id for lane in ready.values() if lane.priority - rules.min_rank_gap >= PRIORITY_MIN}
        now_mono = self._clock.monotonic()
        self._waiting_since = {lane: self._waiting_since.get(lane, now_mono) for lane in high}
        if not any(now_mono - since >= rules.min_wait_s for since in self._waiting_since.values()):
            return False
        return any(self._has_preemptible(lease.node) for lease in await self._store.open_leases())

    async def _load_lanes(self, lanes: Sequence[LaneId]) -> Mapping[LaneId, Lane]:
        return {lane.id: lane for lane in await self._store.load_lanes(list(dict.fromkeys(lanes)))}

    async def _waiting_lanes(
        self,
        view: PlacementView,
        lanes: Mapping[LaneId, Lane],
        exhausted: Mapping[str, DailyQuotaViolation],
        now: Instant,
    ) -> list[WaitingLane]:
        """The waiting lanes in the dispatcher's order of service, down to the last for which a task may be preempted;
        without those that a quota holds back."""
        sizes = {window.lane: window.size for window in await self._broker.ready_index.list_windows()}
        left = project_allowances(view.projects, self._ledger.project_use, exhausted)
        now_mono = self._clock.monotonic()
        ranked: list[tuple[int, TaskId, WaitingLane]] = []
        paused = view.paused_queues
        for lane_id, head in view.ready_heads.items():
            lane = lanes[lane_id]
            may_run = lane.project not in left or left[lane.project].count_allowed(lane.requirement) > 0
            if may_run and lane.queue not in paused:
                rank = lane_rank(lane, head, now, self._ageing)
                since = self._waiting_since.get(lane_id)
                waited_s = 0.0 if since is None else min(now_mono - since, (now - made_at(head)) / 1000)
                size = max(1, sizes.get(lane_id, 1))
                waiting = WaitingLane(lane_id, lane.requirement, lane.project, lane.priority, rank, size, waited_s)
                ranked.append((-rank, head, waiting))
        ordered = [waiting for _, _, waiting in sorted(ranked)]
        while ordered and ordered[-1].lane not in self._waiting_since:
            ordered.pop()
        return ordered[:MAX_LANES]

    def _node_states(self, view: PlacementView) -> list[NodeState]:
        clusters = {cluster.name: cluster for cluster in view.clusters}
        states = [node_state(self._configure.with_effective_slots(node), clusters, self._ledger) for node in view.nodes]
        share_machines(states)
        return states

    async def _preemptible_tasks(
        self, waiting: Sequence[WaitingLane], states: Sequence[NodeState], now: Instant
    ) -> dict[TaskId, tuple[PreemptibleTask, LiveTask]]:
        if not waiting:
            return {}
        nodes = [state.node.id for state in states if self._has_preemptible(state.node.id)]
        if len(nodes) > MAX_NODES:
            nodes = self._rng.sample(nodes, MAX_NODES)
        rows = [row for tasks in (await self._store.held_tasks(nodes)).values() for row in tasks]
        lanes = await self._load_lanes([row.lane for row in rows])
        rows = [row for row in rows if lanes[row.lane].requirement.preemptible and row.recall is Recall.NONE]
        before = await self._store.task_preemptions([row.id for row in rows])
        return {
            row.id: (
                PreemptibleTask(
                    row.id,
                    row.node,
                    lanes[row.lane].requirement,
                    lanes[row.lane].priority,
                    lane_rank(lanes[row.lane], row.id, now, self._ageing),
                    row.started_at or row.assigned_at or now,
                    before[row.id].times if row.id in before else 0,
                ),
                row,
            )
            for row in rows
        }

    def _has_preemptible(self, node: NodeId) -> bool:
        return any(hold.requirement.preemptible for hold in self._ledger.holds_on(node).values())

    async def _waiters(self, freed: Sequence[FreedCapacity], view: PlacementView) -> dict[LaneId, list[TaskId]]:
        """The tasks of each lane for which capacity is freed, in the order in which they are served."""
        deepest: dict[LaneId, int] = {}
        for capacity in freed:
            deepest[capacity.lane] = max(capacity.position, deepest.get(capacity.lane, 0))
        store = self._store
        return {
            lane: await (store.ready_ends if lane in view.ready_ends else store.ready_heads)(lane, position + 1)
            for lane, position in deepest.items()
        }

    async def _recall(
        self,
        freed: Sequence[FreedCapacity],
        waiters: Mapping[LaneId, Sequence[TaskId]],
        rows: Mapping[TaskId, LiveTask],
        term: int,
        now: Instant,
    ) -> PreemptReport:
        chosen: list[Preemption] = []
        for capacity in freed:
            if capacity.position >= len(waiters[capacity.lane]):
                continue  # the index showed more tasks than wait
            waiter = waiters[capacity.lane][capacity.position]
            for victim in capacity.victims:
                row = rows[victim.task]
                chosen.append(Preemption(row.id, row.execution, row.round, row.node, waiter))
        applied = await self._store.preempt_executions(chosen, term, now)
        await publish_hints(self._broker, applied)
        if applied.after:
            served = len({preemption.waiter for preemption in chosen if preemption.task in applied.after})
            log.info("tasks_preempted", count=len(applied.after), waiters=served)
            return PreemptReport(len(applied.after), served)
        return PreemptReport()
