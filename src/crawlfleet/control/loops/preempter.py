"""Preempts: recalls preemptible tasks so that more important ones, which found no free capacity, can run.

It reads the store only while something of high priority waits and something preemptible is held. Earlier recalls are
read from there too, so that a new leader neither recalls twice for one task nor forgets the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import spent_today
from crawlfleet.control.leader.leadership_state import Lead
from crawlfleet.control.leader.node_states import node_state
from crawlfleet.control.leader.slot_ledger import Ledger
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.control.support.broker_hints import tell
from crawlfleet.model.ids import NodeId, TaskId, made_at
from crawlfleet.model.instants import Instant
from crawlfleet.model.limits import PRIORITY_MIN
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.requirement import Lane, LaneId
from crawlfleet.model.status import Recall
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.daily_quota_store import DailyStore
from crawlfleet.ports.node_store import NodeStore, PlacementView
from crawlfleet.ports.preemptions import Preemption, Preemptions
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import TaskStore
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import Ageing, lane_rank
from crawlfleet.scheduling.placement.preemption import Held, Room, Rules, Waiting, make_room
from crawlfleet.scheduling.placement.shared_machines import share_machines
from crawlfleet.scheduling.quotas.daily_quota import DayFull
from crawlfleet.scheduling.quotas.project_quota import allowances

BUDGET_MS = 60_000
PASS_MOST = 100
"""Limit on the recalls of one pass: the next is a second away."""
NODES_LOOKED_AT = 200
"""Nodes looked at in one pass, drawn anew each time: a large installation is not read whole every second."""
LANES_LOOKED_AT = 500


class _Store(TaskStore, ReadyTasks, NodeStore, Preemptions, DailyStore, Protocol):
    pass


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
        store: _Store,
        broker: Broker,
        clock: Clock,
        lead: Lead,
        ledger: Ledger,
        configure: Configure,
        rng: Random,
        ageing: Ageing | None = None,
    ) -> None:
        super().__init__(clock, lead)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._configure = configure
        self._rng = rng
        self._ageing = ageing or Ageing()
        self._waited: dict[LaneId, float] = {}
        """Monotonic time since which each lane of high priority has had waiting tasks without a break."""

    async def run_term(self, term: int, now: Instant) -> PreemptReport:
        await self._configure.refresh()
        settings = self._configure.known(DEFAULT_CLUSTER).values
        rules = Rules(gap=settings["preemption_gap"])
        if not settings["preemption"] or not await self._is_worth_a_look(rules):
            return PreemptReport()
        stopping = await self._store.stopping()
        most: int = settings["preemptions_per_minute"]
        asked = await self._store.preemptions_since(now - BUDGET_MS)
        budget = min(PASS_MOST, most - asked, most - len(stopping))
        if budget <= 0:
            return PreemptReport()
        view = await self._store.placement_view()
        lanes = await self._known([*view.ready_heads, *(one.lane for one in stopping)])
        spent = await spent_today(self._store, view.projects, now)
        waiting = await self._in_order(view, lanes, spent, now)
        states = self._states(view)
        held = await self._may_stop(waiting, states, now)
        gone = [(one.node, lanes[one.lane].requirement) for one in stopping]
        rooms = make_room(
            waiting,
            states,
            [one for one, _ in held.values()],
            gone,
            budget=budget,
            rules=rules,
            overcommit=settings["overcommit"],
            allowances=allowances(view.projects, self._ledger.use, spent),
        )
        waiters = await self._waiters(rooms, view)
        return await self._recall(rooms, waiters, {task: row for task, (_, row) in held.items()}, term, now)

    async def _is_worth_a_look(self, rules: Rules) -> bool:
        """Whether a pass may preempt anything. Cheap, as every installation checks it every second."""
        if not self._ledger:
            self._waited.clear()
            return False
        ready = await self._known(await self._store.ready_lanes())
        high = {lane.id for lane in ready.values() if lane.priority - rules.gap >= PRIORITY_MIN}
        at = self._clock.monotonic()
        self._waited = {lane: self._waited.get(lane, at) for lane in high}
        if not any(at - since >= rules.patience_s for since in self._waited.values()):
            return False
        return any(self._has_preemptible(lease.node) for lease in await self._store.leases())

    async def _known(self, lanes: Sequence[LaneId]) -> Mapping[LaneId, Lane]:
        return {lane.id: lane for lane in await self._store.lanes(list(dict.fromkeys(lanes)))}

    async def _in_order(
        self, view: PlacementView, lanes: Mapping[LaneId, Lane], spent: Mapping[str, DayFull], now: Instant
    ) -> list[Waiting]:
        """The waiting lanes in the dispatcher's order of service, down to the last for which a task may be preempted;
        without those that a quota holds back."""
        sizes = {window.lane: window.size for window in await self._broker.ready.windows()}
        left = allowances(view.projects, self._ledger.use, spent)
        at = self._clock.monotonic()
        found: list[tuple[int, TaskId, Waiting]] = []
        paused = view.paused_queues
        for lane_id, head in view.ready_heads.items():
            lane = lanes[lane_id]
            may_run = lane.project not in left or left[lane.project].fit(lane.requirement) > 0
            if may_run and lane.queue not in paused:
                rank = lane_rank(lane, head, now, self._ageing)
                since = self._waited.get(lane_id)
                waited_s = 0.0 if since is None else min(at - since, (now - made_at(head)) / 1000)
                size = max(1, sizes.get(lane_id, 1))
                one = Waiting(lane_id, lane.requirement, lane.project, lane.priority, rank, size, waited_s)
                found.append((-rank, head, one))
        ordered = [one for _, _, one in sorted(found)]
        while ordered and ordered[-1].lane not in self._waited:
            ordered.pop()
        return ordered[:LANES_LOOKED_AT]

    def _states(self, view: PlacementView) -> list[NodeState]:
        clusters = {cluster.name: cluster for cluster in view.clusters}
        states = [node_state(self._configure.sized(node), clusters, self._ledger) for node in view.nodes]
        share_machines(states)
        return states

    async def _may_stop(
        self, waiting: Sequence[Waiting], states: Sequence[NodeState], now: Instant
    ) -> dict[TaskId, tuple[Held, LiveTask]]:
        if not waiting:
            return {}
        nodes = [state.node.id for state in states if self._has_preemptible(state.node.id)]
        if len(nodes) > NODES_LOOKED_AT:
            nodes = self._rng.sample(nodes, NODES_LOOKED_AT)
        rows = [row for tasks in (await self._store.held(nodes)).values() for row in tasks]
        lanes = await self._known([row.lane for row in rows])
        rows = [row for row in rows if lanes[row.lane].requirement.preemptible and row.recall is Recall.NONE]
        before = await self._store.preempted([row.id for row in rows])
        return {
            row.id: (
                Held(
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
        return any(hold.requirement.preemptible for hold in self._ledger.held(node).values())

    async def _waiters(self, rooms: Sequence[Room], view: PlacementView) -> dict[LaneId, list[TaskId]]:
        """The tasks of each lane for which capacity is freed, in the order in which they are served."""
        deepest: dict[LaneId, int] = {}
        for room in rooms:
            deepest[room.lane] = max(room.position, deepest.get(room.lane, 0))
        store = self._store
        return {
            lane: await (store.ready_ends if lane in view.ready_ends else store.ready_heads)(lane, position + 1)
            for lane, position in deepest.items()
        }

    async def _recall(
        self,
        rooms: Sequence[Room],
        waiters: Mapping[LaneId, Sequence[TaskId]],
        rows: Mapping[TaskId, LiveTask],
        term: int,
        now: Instant,
    ) -> PreemptReport:
        chosen: list[Preemption] = []
        for room in rooms:
            if room.position >= len(waiters[room.lane]):
                continue  # the index showed more tasks than wait
            waiter = waiters[room.lane][room.position]
            for victim in room.victims:
                row = rows[victim.task]
                chosen.append(Preemption(row.id, row.execution, row.round, row.node, waiter))
        applied = await self._store.preempt(chosen, term, now)
        await tell(self._broker, applied)
        if applied.after:
            served = len({one.waiter for one in chosen if one.task in applied.after})
            log.info("tasks_preempted", count=len(applied.after), waiters=served)
            return PreemptReport(len(applied.after), served)
        return PreemptReport()
