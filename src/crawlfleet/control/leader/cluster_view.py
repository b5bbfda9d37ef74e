"""The leader's view of the cluster: nodes, queues, projects, and the lanes that have something to place.

All of it is a cache. Once a second, and whenever a change is signalled, the leader *refreshes* it: it reads nodes,
queues, projects and the heads of lanes from the store. In between it *applies changes*: windows that changed, and nodes
that hold something else than before. So a pass costs what has happened, not what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import spent_today
from crawlfleet.control.leader.node_states import node_state
from crawlfleet.control.leader.placement_context import Advice
from crawlfleet.control.leader.queue_ordering import QueueOrders
from crawlfleet.control.leader.slot_ledger import Ledger
from crawlfleet.errors import InvariantBroken
from crawlfleet.model.ids import TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster, Node
from crawlfleet.model.project import Project
from crawlfleet.model.queue import Queue
from crawlfleet.model.requirement import Lane, LaneId, Requirement
from crawlfleet.ports.broker import Broker, Window
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.daily_quota_store import DailyStore
from crawlfleet.ports.node_store import NodeStore, PlacementView
from crawlfleet.ports.project_store import ProjectStore
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.scheduling.placement.dispatch_round import Choice, Chooser, Pace, Terms
from crawlfleet.scheduling.placement.fair_shares import SharesByRank
from crawlfleet.scheduling.placement.lane_order import Ageing, LaneOrder
from crawlfleet.scheduling.placement.placer import Cursors, Placer
from crawlfleet.scheduling.placement.shared_machines import reserved_together, share_machines
from crawlfleet.scheduling.placement.stuck_lanes import Reason, reason
from crawlfleet.scheduling.quotas.daily_quota import DayFull

SHOWN = 200_000
"""Limit on the task ids in all windows together, roughly: with many lanes each window is smaller."""
SHOWN_LEAST = 500
LANES_AT_ONCE = 200
"""Lanes without a window that get one before the next round: a new leader does not wait for all of them."""


class _Store(ReadyTasks, NodeStore, ProjectStore, DailyStore, Protocol):
    pass


class Sight:
    def __init__(
        self,
        *,
        store: _Store,
        broker: Broker,
        clock: Clock,
        ledger: Ledger,
        rng: Random,
        configure: Configure,
        orders: QueueOrders,
        advice: Advice,
        ageing: Ageing,
        window: int,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._ledger = ledger
        self._rng = rng
        self._configure = configure
        self._orders = orders
        self._knowing, self._strategies = advice.knowing, advice.strategies
        self._window = window
        self.order = LaneOrder(ageing)
        self.nodes: Sequence[Node] = ()
        self.paused: set[str] = set()
        self.strategy = ""
        """Strategy of tasks that name none."""
        self.placer = Placer((), rng=rng)
        self.deep: dict[LaneId, int] = {}
        """Number of ids in each window behind which the store has more tasks."""
        self._clusters: Mapping[str, Cluster] = {}
        self._projects: dict[str, Project] = {}
        self._spent: Mapping[str, DayFull] = {}
        self._lifo: frozenset[str] = frozenset()
        """Queues whose windows are newest first."""
        self._shares = SharesByRank()
        self._cursors: Cursors = {}
        self._lanes: dict[LaneId, Lane] = {}
        self._oldest: Mapping[LaneId, TaskId] = {}
        self._unshown: list[LaneId] = []
        self._asked: dict[Requirement, Requirement] = {}

    @property
    def has_more(self) -> bool:
        """Whether lanes still wait for a window."""
        return bool(self._unshown)

    def lane(self, lane: LaneId) -> Lane:
        return self._lanes[lane]

    def is_lifo(self, lane: LaneId) -> bool:
        return self._orders.is_lifo(self._lanes[lane])

    def fences(self, lanes: Iterable[LaneId]) -> dict[str, int]:
        """The fence up to which this leader's count of each project is valid. Empty where no project is configured: then
        there is nothing to compare, and the store is spared the read."""
        if not self._projects:
            return {}
        projects = {self._lanes[lane].project for lane in lanes}
        return {name: self._projects[name].fence if name in self._projects else 0 for name in projects}

    def forget(self) -> None:
        """Forget what belongs to an earlier term."""
        self._projects = {}
        self._shares = SharesByRank()

    # -- reading the store and the ready index

    async def look(self) -> None:
        await self._configure.refresh()
        view = await self._store.placement_view()
        await self._see_projects(view.projects)
        self._spent = await spent_today(self._store, view.projects, self._clock.now())
        await self._see_queues(view.queues)
        self._see_nodes(view.nodes, view.clusters)
        self._oldest = view.ready_heads
        shown = {window.lane: window.head for window in await self._broker.ready.windows()}
        await self._know(view.ready_heads)
        behind = [lane for lane in view.ready_heads if _is_behind(shown.get(lane, 0), lane, view)]
        self._unshown = sorted(behind, key=lambda lane: (-self._lanes[lane].priority, view.ready_heads[lane]))
        await self._show_some()
        windows = await self._broker.ready.windows()
        for gone in {ready.lane.id for ready in self.order} - {window.lane for window in windows}:
            self.order.remove(gone)
        self.deep.clear()
        await self._see_windows(windows)

    async def follow(self, term: int, now: Instant) -> None:
        """Apply what happened since; cheap, to be called before every round."""
        await self._show_some()
        await self._see_windows(await self._broker.ready.changed())
        self.placer.knowledge = await self._knowing.for_pass(self.order.about.values(), term, now)
        follow_ledger(self.placer, self._ledger)

    async def _see_projects(self, projects: Sequence[Project]) -> None:
        """Load projects; before a fence counts, the ledger has everything that was assigned by hand up to it."""
        before, self._projects = self._projects, {project.name: project for project in projects}
        moved = [
            project.name
            for project in projects
            if project.quotas.limits_running
            and (project.name not in before or before[project.name].fence != project.fence)
        ]
        if not moved:
            return
        try:
            rows = await self._store.held_in(moved)
            await self._know({row.lane for row in rows})
        except BaseException:
            self._projects = before
            raise
        at = self._clock.monotonic()
        for row in rows:
            lane = self._lanes[row.lane]
            self._ledger.hold(row.node, row.execution, lane.requirement, at, lane.project)

    async def _see_queues(self, queues: Sequence[Queue]) -> None:
        self.paused = {queue.name for queue in queues if queue.is_paused}
        before, self._lifo = self._lifo, self._orders.learn(queues)
        if changed := before ^ self._lifo:
            # Their windows are the wrong way round: the refresh loads them anew.
            lanes = [window.lane for window in await self._broker.ready.windows()]
            await self._know_shown(lanes)
            await self._broker.ready.drop([lane for lane in lanes if self._lanes[lane].queue in changed])

    def _see_nodes(self, nodes: Sequence[Node], clusters: Sequence[Cluster]) -> None:
        configure, ledger = self._configure, self._ledger
        self.nodes = [configure.sized(node) for node in nodes]
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self.strategy = configure.known(DEFAULT_CLUSTER).values["strategy"]
        self._asked = {}
        ledger.take_news()
        at = self._clock.monotonic()
        states = [node_state(node, self._clusters, ledger, at) for node in self.nodes]
        share_machines(states)
        self.placer = Placer(
            states,
            rng=self._rng,
            default_strategy=self.strategy,
            cursors=self._cursors,
            overcommit=configure.known(DEFAULT_CLUSTER).values["overcommit"],
            strategies=self._strategies.makers,
        )

    async def _show_some(self) -> None:
        if self._unshown:
            await self.show(self._unshown[:LANES_AT_ONCE])
            del self._unshown[:LANES_AT_ONCE]

    async def show(self, lanes: Sequence[LaneId]) -> None:
        """Load the windows of the lanes into the ready index, as the store has them now."""
        most = min(self._window, max(SHOWN_LEAST, SHOWN // max(1, len(self.order))))
        newest = [lane for lane in lanes if self.is_lifo(lane)]
        oldest = [lane for lane in lanes if lane not in newest] if newest else lanes
        for lane, tasks in (await self._store.ready_parts(oldest, newest, most)).items():
            await self._broker.ready.refill(lane, tasks, is_deep=len(tasks) == most)

    async def _see_windows(self, windows: Sequence[Window]) -> None:
        # One that was dropped is told of once more.
        windows = [window for window in windows if window.size or window.is_deep or window.lane in self._lanes]
        await self._know_shown([window.lane for window in windows])
        for window in windows:
            lane = self._lanes[window.lane]
            # Age counts from the oldest task: behind a window that is newest first, that is the store's.
            oldest = self._oldest.get(window.lane, window.head) if self._orders.is_lifo(lane) else window.head
            self.order.put(lane, oldest, window.size)
            if window.is_deep:
                self.deep[window.lane] = window.size
            else:
                self.deep.pop(window.lane, None)

    async def _know_shown(self, lanes: Sequence[LaneId]) -> None:
        """Know lanes that only the index names. It has no truth: a hint that comes days late names a lane whose row is
        gone."""
        try:
            await self._know(lanes)
        except InvariantBroken:
            await self._broker.ready.drop([lane for lane in lanes if lane not in self._lanes])
            raise

    async def _know(self, lanes: Iterable[LaneId]) -> None:
        unknown = [lane for lane in lanes if lane not in self._lanes]
        if unknown:
            self._lanes.update((lane.id, lane) for lane in await self._store.lanes(unknown))

    # -- rounds

    def choose(self, pace: Pace, now: Instant) -> Choice:
        self.placer.begin_pass()
        terms = Terms(self._projects, self._ledger.use, self.paused, self._spent)
        return Chooser(self.placer, self._shares, terms, pace, self.asked).choose(self.order, now)

    def why_stuck(self, lane: Lane) -> Reason | None:
        """Why nothing of the lane was placed by the last round; None when it waits for its turn."""
        return reason(
            lane, self._projects.get(lane.project), self._ledger.use, self.placer, self._spent.get(lane.project)
        )

    def asked(self, requirement: Requirement) -> Requirement:
        """The requirement with the strategy of the cluster it names; the default cluster's is the placer's own."""
        asked = self._asked.get(requirement)
        if asked is None:
            asked = self._asked[requirement] = self._with_strategy(requirement)
        return asked

    def _with_strategy(self, requirement: Requirement) -> Requirement:
        if requirement.strategy is not None or requirement.cluster is None:
            return requirement
        strategy = self._configure.known(requirement.cluster).values["strategy"]
        return requirement if strategy == self.strategy else replace(requirement, strategy=strategy)


def follow_ledger(placer: Placer, ledger: Ledger) -> None:
    """Correct the placer by the ledger's changes; nodes of one machine share what all of them reserve."""
    ended, doubted = ledger.take_news()
    placer.give_back(ended)
    for node in doubted:
        machine = placer.sharing(node)
        parts = (ledger.reserved(state.node.id) for state in machine)
        placer.correct(node, len(ledger.held(node)), reserved_together(parts) if machine else ledger.reserved(node))


def _is_behind(head: TaskId, lane: LaneId, view: PlacementView) -> bool:
    """Whether a committed task before the window was never offered: in a busy lane its turn would never come."""
    newest = view.ready_ends.get(lane)
    return not head or (view.ready_heads[lane] < head if newest is None else newest > head)
