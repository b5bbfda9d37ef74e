"""Places ready tasks on nodes, whole batches at a time.

A pass: take what became free, look at the windows of the ready lanes in order, place class by class, commit the batch
`pending -> assigned` under the term, and tell the nodes of what the store confirmed. Nothing is delivered before that.

What it knows (the ledger, the node list, the windows) is a cache. A lost hint costs at most the second until the next
look at the store; when queues or nodes change, LOOK asks for one before the next choice. Whoever has to be sure that
nothing chosen before is still on its way waits for `placing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import attrgetter
from random import Random
from typing import Protocol

from crawlfleet.control.advice import Advice
from crawlfleet.control.configure import Configure
from crawlfleet.control.lead import Lead
from crawlfleet.control.ledger import Ledger
from crawlfleet.control.loops.loop import LeaderLoop, log
from crawlfleet.control.node_states import node_state
from crawlfleet.errors import NotLeader, OutcomeUnknown, Unavailable
from crawlfleet.model.answers import Code, Refusal
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import IdFactory, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Cluster, Node
from crawlfleet.model.requirement import Lane, LaneId, Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker, Window, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import Applied, Assignment, TaskStore
from crawlfleet.scheduling.avoidance import avoiding
from crawlfleet.scheduling.explain import explain_placement
from crawlfleet.scheduling.filters import NodeState
from crawlfleet.scheduling.machines import share_machines
from crawlfleet.scheduling.order import Ageing, LaneHeap, LaneView
from crawlfleet.scheduling.placement import Cursors, Placer

BATCH = 500
"""One commit's worth: larger ones win little, and whoever comes meanwhile with a higher priority waits for them."""
QUANTUM = 128
"""How many of one lane go before the next lane of the same rank has its turn."""
REFILL_BELOW = 500
LOOK_S = 1.0
"""How old the view of nodes, queues and lanes may be."""


class _Store(TaskStore, ReadyTasks, NodeStore, EventStore, Protocol):
    pass


@dataclass(frozen=True, slots=True)
class DispatchReport:
    placed: int = 0
    refused: int = 0
    stale: int = 0
    """Of those refused, what was no longer pending."""
    has_more: bool = False

    def __bool__(self) -> bool:
        return self.has_more


class Dispatcher(LeaderLoop):
    name = "dispatcher"
    pause_s = LOOK_S

    def __init__(
        self, *, store: _Store, broker: Broker, clock: Clock, lead: Lead, ledger: Ledger, id_factory: IdFactory,
        rng: Random, configure: Configure, placing: asyncio.Lock, advice: Advice,
        ageing: Ageing | None = None, window: int = 2_000,
    ) -> None:  # fmt: skip
        super().__init__(clock, lead)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._ids = id_factory
        self._rng = rng
        self._ageing = ageing or Ageing()
        self._configure = configure
        self._placing = placing
        self._knowing, self._strategies, self._avoided = advice.knowing, advice.strategies, advice.avoided
        self._window = window
        self._strategy = ""
        self._overcommit = 1.0
        self._cursors: Cursors = {}
        self._term: int | None = None
        self._generation = ""
        self._nodes: Sequence[Node] = ()
        self._clusters: Mapping[str, Cluster] = {}
        self._paused: set[str] = set()
        self._looked_at = float("-inf")
        self._blocked: set[Requirement] = set()

    async def wait(self, pause_s: float) -> None:
        if pause_s > 0 and self.lead.term is not None:
            await self._broker.signals.wait(LEADER, pause_s)
        else:
            await super().wait(0)

    async def run_term(self, term: int, now: Instant) -> DispatchReport:
        async with self._placing:
            return await self._place(term, now)

    async def _place(self, term: int, now: Instant) -> DispatchReport:
        if term != self._term:
            await self._take_over(term)
        self._ledger.release(await self._broker.freed.take_all())
        if await self._broker.signals.wait(LOOK, 0):
            self._looked_at = float("-inf")
        is_looking = self._clock.monotonic() - self._looked_at >= LOOK_S
        if is_looking:
            await self._look()
        windows = await self._broker.ready.windows()
        lanes = {lane.id: lane for lane in await self._store.lanes([window.lane for window in windows])}
        states = [node_state(node, self._clusters, self._ledger) for node in self._nodes]
        share_machines(states)
        placer = Placer(
            states, rng=self._rng, default_strategy=self._strategy, cursors=self._cursors, overcommit=self._overcommit,
            strategies=self._strategies.makers,
            knowledge=await self._knowing.for_pass((lane.requirement for lane in lanes.values()), term, now),
        )  # fmt: skip
        chosen, is_full = self._choose(windows, lanes, placer, now)
        report = await self._commit(chosen, lanes, placer, term, now)
        is_refilled = await self._refill(windows, chosen)
        if is_looking:
            waiting = [lanes[window.lane] for window in windows if window.size and window.lane not in chosen]
            await self._tell_blocked(waiting, states, term, now)
            await self._tell_strategies(term, now)
        if report.placed:
            log.debug("tasks_placed", count=report.placed, refused=report.refused)
        # What was not pending any more only took the place of tasks behind it.
        has_more = report.stale > 0 or (report.placed > 0 and (is_full or is_refilled))
        return replace(report, has_more=has_more)

    async def _take_over(self, term: int) -> None:
        """Everything remembered is of another term: begin from the store."""
        self._ledger.clear()
        await self._broker.freed.take_all()
        nodes = await self._store.nodes()
        held = await self._store.held([node.id for node in nodes])
        rows = [row for tasks in held.values() for row in tasks]
        lanes = {lane.id: lane for lane in await self._store.lanes(sorted({row.lane for row in rows}))}
        at = self._clock.monotonic()
        for row in rows:
            self._ledger.hold(row.node, row.id, lanes[row.lane].requirement, at)
        await self._broker.ready.clear()
        await self._look()
        self._term = term

    async def _look(self) -> None:
        """What hints may have missed: nodes, paused queues, lanes that have work and no window, configuration."""
        generation = await self._broker.generation()
        if generation != self._generation:
            self._generation = generation
            self._ledger.is_doubted = True
            await self._broker.ready.clear()
        configure = self._configure
        await configure.refresh()
        self._strategy = configure.known(DEFAULT_CLUSTER).values["strategy"]
        self._overcommit = configure.known(DEFAULT_CLUSTER).values["overcommit"]
        view = await self._store.placement_view()
        self._nodes = [configure.sized(node) for node in view.nodes]
        self._paused = view.paused_queues
        self._clusters = {cluster.name: cluster for cluster in view.clusters}
        shown = {window.lane: window.head for window in await self._broker.ready.windows()}
        for lane, oldest in view.ready_heads.items():
            # A head older than the window's was committed and never offered: in a busy lane its turn would never come.
            if not shown.get(lane) or oldest < shown[lane]:
                await self._refill_lane(lane)
        self._looked_at = self._clock.monotonic()

    def _asked(self, requirement: Requirement) -> Requirement:
        """With the strategy of the cluster it names; the default's is the placer's own."""
        if requirement.strategy is not None or requirement.cluster is None:
            return requirement
        strategy = self._configure.known(requirement.cluster).values["strategy"]
        return requirement if strategy == self._strategy else replace(requirement, strategy=strategy)

    def _choose(
        self, windows: Sequence[Window], lanes: Mapping[LaneId, Lane], placer: Placer, now: Instant
    ) -> tuple[dict[LaneId, list[NodeState]], bool]:
        """A node for each task to come from each lane, in the order of the lanes; whether the batch was full."""
        heap = LaneHeap(now, self._ageing, (
            LaneView(
                window.lane, lanes[window.lane].priority, window.head, window.size,
                highest=lanes[window.lane].highest_rank,
            )
            for window in windows
            if window.size and lanes[window.lane].queue not in self._paused
        ))  # fmt: skip
        chosen: dict[LaneId, list[NodeState]] = {}
        room = BATCH
        while len(heap) and room:
            view = heap.pop()
            lane = lanes[view.lane]
            nodes = placer.place(self._asked(lane.requirement), lane.project, min(QUANTUM, view.size, room))
            if nodes:
                chosen.setdefault(view.lane, []).extend(nodes)
                room -= len(nodes)
                heap.push(view._replace(size=view.size - len(nodes), turns=view.turns + 1))
        self._strategies.unknown(placer.unknown_strategies, self._strategy)
        return chosen, room == 0

    async def _commit(
        self, chosen: Mapping[LaneId, list[NodeState]], lanes: Mapping[LaneId, Lane], placer: Placer, term: int,
        now: Instant,
    ) -> DispatchReport:  # fmt: skip
        if not chosen:
            return DispatchReport()
        taken = await self._broker.ready.take({lane: len(nodes) for lane, nodes in chosen.items()})
        batch: list[Assignment] = []
        for lane, tasks in taken.items():
            nodes = [state.node for state in self._avoiding(tasks, chosen[lane][: len(tasks)], lanes[lane], placer)]
            targets = ([node.id for node in nodes], [node.session for node in nodes])
            batch += map(Assignment, tasks, repeat(lane), self._ids.take(len(tasks)), *targets)
        try:
            applied = await self._assigned(batch, term, now)
        except (Unavailable, NotLeader):
            await self._broker.ready.offer(_by_lane(batch))
            raise
        if self._avoided:
            self._avoided.forget(applied.after)
        at = self._clock.monotonic()
        assigned = [item for item in batch if item.task not in applied.refused] if applied.refused else batch
        for lane, items in _lanes_of(assigned).items():
            self._ledger.hold_all([(item.node, item.task) for item in items], lanes[lane].requirement, at)
        await self._broker.signals.wake([node_topic(node) for node in applied.told])
        if not applied.refused:
            return DispatchReport(len(batch))
        await self._give_back(batch, applied)
        stale = sum(refusal.code is Code.NOT_READY for refusal in applied.refused.values())
        return DispatchReport(len(assigned), len(applied.refused), stale)

    def _avoiding(
        self, tasks: Sequence[TaskId], nodes: list[NodeState], lane: Lane, placer: Placer
    ) -> Sequence[NodeState]:
        """Not where they failed the last time, where that is known and can be helped."""
        failed_on = self._avoided.among(tasks) if self._avoided else None
        if not failed_on:
            return nodes
        asked = self._asked(lane.requirement)
        return avoiding(tasks, nodes, failed_on, lambda node: placer.other_than(node, asked, lane.project))

    async def _assigned(self, batch: list[Assignment], term: int, now: Instant) -> Applied:
        try:
            return await self._store.assign(batch, term, now)
        except OutcomeUnknown:
            # It may have been committed: what carries our execution was, the rest was not.
            live = await self._store.live([item.task for item in batch])
            applied = Applied()
            for item in batch:
                row = live.get(item.task)
                if row is not None and row.execution == item.execution:
                    applied.after[item.task] = row.status
                    applied.told.add(item.node)
                else:
                    is_pending = row is not None and row.status is TaskStatus.PENDING
                    applied.refused[item.task] = _NOT_TAKEN if is_pending else _NOT_PENDING
            if not applied.after:
                raise
            return applied

    async def _give_back(self, batch: Sequence[Assignment], applied: Applied) -> None:
        """Tasks whose node went away are ready for another; tasks that changed are somebody else's business."""
        unready = [
            item for item in batch
            if (refusal := applied.refused.get(item.task)) is not None and refusal.code is Code.NODE_NOT_READY
        ]  # fmt: skip
        if unready:
            self._looked_at = float("-inf")
            await self._broker.ready.offer(_by_lane(unready))

    async def _refill(self, windows: Sequence[Window], taken: Mapping[LaneId, Sequence[NodeState]]) -> bool:
        """Whether a window that this pass left low shows more of its lane now."""
        low = [
            window.lane for window in windows
            if window.is_deep and window.size - len(taken.get(window.lane, ())) < REFILL_BELOW
        ]  # fmt: skip
        for lane in low:
            await self._refill_lane(lane)
        return bool(low)

    async def _refill_lane(self, lane: LaneId) -> None:
        heads = await self._store.ready_heads(lane, self._window)
        await self._broker.ready.refill(lane, heads, is_deep=len(heads) == self._window)

    async def _tell_blocked(
        self, waiting: Sequence[Lane], states: Sequence[NodeState], term: int, now: Instant
    ) -> None:
        """One event when a class of tasks finds no node that could ever take it, not one per task or pass."""
        blocked: set[Requirement] = set()
        told = []
        for lane in waiting:
            if lane.requirement in blocked:
                continue
            found = explain_placement(lane.requirement, lane.project, states, self._overcommit)
            if not found.able and not found.full:
                blocked.add(lane.requirement)
                if lane.requirement not in self._blocked:
                    shared = {"task_type": lane.requirement.task_type, "project": lane.project, "why": found.sentence}
                    told.append(EventBatch(Kind.NODE_UNAVAILABLE, shared=shared))
        self._blocked = blocked
        if told:
            await self._store.record(told, now, term)

    async def _tell_strategies(self, term: int, now: Instant) -> None:
        if news := self._strategies.news:
            await self._store.record(news, now, term)
            self._strategies.wrote(len(news))


_NOT_TAKEN = Refusal(Code.NODE_NOT_READY, "its node did not take it")
_NOT_PENDING = Refusal(Code.NOT_READY, "is no longer pending")


def _lanes_of(batch: Sequence[Assignment]) -> dict[LaneId, list[Assignment]]:
    """A batch is made lane by lane, and stays so."""
    return {lane: list(items) for lane, items in groupby(batch, key=attrgetter("lane"))}


def _by_lane(batch: Sequence[Assignment]) -> dict[LaneId, list[TaskId]]:
    return {lane: [item.task for item in items] for lane, items in _lanes_of(batch).items()}
