"""Places ready tasks on nodes, whole batches at a time.

A pass releases the slots that became free, plans a round (order, shares, quotas, placement), commits the batch
`pending -> assigned` under the term, and wakes the nodes of what the store confirmed. Nothing is delivered before that.

What it knows (the slot ledger and the cluster view) is a cache. A lost hint costs at most the second until the next
refresh; when queues, projects or nodes change, the signal LOOK asks for one before the next round. A caller that must be
sure that no round planned before is still on its way waits for `placing`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Protocol

from crawlfleet.control.leader.cluster_view import Sight
from crawlfleet.control.leader.leadership_state import Lead
from crawlfleet.control.leader.placement_context import Advice
from crawlfleet.control.leader.recent_placements import RecentPlacements
from crawlfleet.control.leader.slot_ledger import Ledger
from crawlfleet.control.leader.stuck_lanes import StuckLanes
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.errors import NotLeader, OutcomeUnknown, Unavailable
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import IdFactory, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import LaneId, Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.ports.ready_tasks import ReadyTasks
from crawlfleet.ports.task_store import Applied, Assignment, TaskStore
from crawlfleet.scheduling.explain.task import explain_placement
from crawlfleet.scheduling.placement.dispatch_round import Pace
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import oldest_turns
from crawlfleet.scheduling.placement.retry_placement import avoiding

BATCH = 500
"""Tasks in one commit: larger ones win little, and a task of higher priority that comes meanwhile waits for them."""
QUANTUM = 128
"""Tasks of one lane that are placed before the next lane of the same rank has its turn."""
REFILL_BELOW = 500
LOOK_S = 1.0
"""Maximum age of the view of nodes, queues and lanes."""


class _Store(TaskStore, ReadyTasks, NodeStore, EventStore, Protocol):
    pass


@dataclass(frozen=True, slots=True)
class DispatchReport:
    placed: int = 0
    refused: int = 0
    stale: int = 0
    """Number of refused tasks that were no longer pending."""
    has_more: bool = False

    def __bool__(self) -> bool:
        return self.has_more


class Dispatcher(LeaderLoop):
    name = "dispatcher"
    pause_s = LOOK_S

    def __init__(
        self,
        *,
        store: _Store,
        broker: Broker,
        clock: Clock,
        lead: Lead,
        ledger: Ledger,
        id_factory: IdFactory,
        sight: Sight,
        placing: asyncio.Lock,
        advice: Advice,
    ) -> None:
        super().__init__(clock, lead)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._ids = id_factory
        self._placing = placing
        self._strategies, self._avoided = advice.strategies, advice.avoided
        self.sight = sight
        self._term: int | None = None
        self._generation = ""
        self._looked_at = float("-inf")
        self._blocked: set[Requirement] = set()
        self._stuck = StuckLanes(store=store, clock=clock, sight=sight)
        self._recent = RecentPlacements()
        self._since_oldest: Counter[LaneId] = Counter()
        """Tasks placed since the oldest task had a turn, by lane that is last in first out."""

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
        await self.sight.follow(term, now)
        choice = self.sight.choose(Pace(BATCH, QUANTUM), now)
        self._strategies.unknown(self.sight.placer.unknown_strategies, self.sight.strategy)
        self._stuck.served(choice.nodes)
        report = await self._commit(choice.nodes, term, now)
        is_refilled = await self._refill(choice.nodes)
        if is_looking:
            await self._tell_blocked(choice.nodes, term, now)
            await self._stuck.tell(self._blocked, term, now)
            await self._tell_strategies(term, now)
        if report.placed:
            log.debug("tasks_placed", count=report.placed, refused=report.refused)
        # A task that was not pending any more only took the place of tasks behind it.
        has_more = report.stale > 0 or (report.placed > 0 and (choice.is_full or is_refilled)) or self.sight.has_more
        return replace(report, has_more=has_more)

    async def _take_over(self, term: int) -> None:
        """Begin a term: drop all caches and load them from the store."""
        self._ledger.clear()
        self._stuck.clear()
        self._recent.clear()
        self.sight.forget()
        await self._broker.freed.take_all()
        nodes = await self._store.nodes()
        held = await self._store.held([node.id for node in nodes])
        rows = [row for tasks in held.values() for row in tasks]
        lanes = {lane.id: lane for lane in await self._store.lanes(sorted({row.lane for row in rows}))}
        at = self._clock.monotonic()
        for row in rows:
            lane = lanes[row.lane]
            self._ledger.hold(row.node, row.execution, lane.requirement, at, lane.project)
        await self._broker.ready.clear()
        await self._look()
        self._term = term

    async def _look(self) -> None:
        """Refresh the view from the store: hints may have been lost."""
        generation = await self._broker.generation()
        if generation != self._generation:
            self._generation = generation
            self._ledger.is_doubted = True
            await self._broker.ready.clear()
        await self.sight.look()
        self._looked_at = self._clock.monotonic()

    async def _commit(self, chosen: Mapping[LaneId, list[NodeState]], term: int, now: Instant) -> DispatchReport:
        if not chosen:
            return DispatchReport()
        self._recent.forget_before(self._clock.monotonic())
        batch = await self._without_bounces(await self._batch(chosen))
        if not batch:
            return DispatchReport()
        try:
            applied = await self._assigned(batch, term, now)
        except (Unavailable, NotLeader):
            self._ledger.doubt([item.node for item in batch])
            await self._broker.ready.offer(_by_lane(batch))
            raise
        if self._avoided:
            self._avoided.forget(applied.after)
        at = self._clock.monotonic()
        assigned = [item for item in batch if item.task not in applied.refused] if applied.refused else batch
        for lane_id, items in _lanes_of(assigned).items():
            lane = self.sight.lane(lane_id)
            pairs = [(item.node, item.execution) for item in items]
            self._ledger.hold_all(pairs, lane.requirement, at, lane.project, is_news=False)
        self._recent.note(assigned, at)
        await self._broker.signals.wake([node_topic(node) for node in applied.told])
        if not applied.refused:
            return DispatchReport(len(batch))
        await self._give_back(batch, applied)
        stale = sum(refusal.code is not Code.NODE_NOT_READY for refusal in applied.refused.values())
        return DispatchReport(len(assigned), len(applied.refused), stale)

    async def _batch(self, chosen: Mapping[LaneId, list[NodeState]]) -> list[Assignment]:
        """Pop the tasks for these nodes, lane by lane."""
        lifo = [lane for lane in chosen if self.sight.is_lifo(lane)]
        oldest = {lane: await self._oldest(lane, len(chosen[lane])) for lane in lifo}
        wants = {lane: len(nodes) - len(oldest.get(lane, ())) for lane, nodes in chosen.items()}
        taken = await self._broker.ready.take({lane: want for lane, want in wants.items() if want})
        if oldest:
            await self._broker.ready.discard([(lane, task) for lane, tasks in oldest.items() for task in tasks])
        batch: list[Assignment] = []
        for lane, nodes in chosen.items():
            tasks = list(dict.fromkeys([*oldest.get(lane, ()), *taken.get(lane, ())]))
            targets = [state.node for state in self._avoiding(tasks, nodes[: len(tasks)], lane)]
            where = ([node.id for node in targets], [node.session for node in targets])
            batch += map(Assignment, tasks, repeat(lane), self._ids.take(len(tasks)), *where)
            self._ledger.doubt([state.node.id for state in nodes[len(tasks) :]])
        return batch

    def _avoiding(self, tasks: Sequence[TaskId], nodes: list[NodeState], lane_id: LaneId) -> Sequence[NodeState]:
        """Move tasks off nodes where they failed last or just came back from, where that is known and possible."""
        failed_on = self._recent.nodes(tasks)
        if self._avoided:
            failed_on |= self._avoided.among(tasks)
        if not failed_on:
            return nodes
        lane, placer = self.sight.lane(lane_id), self.sight.placer
        asked = self.sight.asked(lane.requirement)
        used = avoiding(tasks, nodes, failed_on, lambda node: placer.other_than(node, asked, lane.project))
        self._ledger.doubt(chosen.node.id for chosen, state in zip(nodes, used, strict=True) if chosen is not state)
        return used

    async def _without_bounces(self, batch: list[Assignment]) -> list[Assignment]:
        """Leave tasks for a later pass that their session has just handed back and no other node can take."""
        bounces = self._recent.bounces(batch)
        if not bounces:
            return batch
        later = [item for item in batch if item.task in bounces]
        self._ledger.doubt([item.node for item in later])
        await self._broker.ready.offer(_by_lane(later))
        return [item for item in batch if item.task not in bounces]

    async def _oldest(self, lane: LaneId, count: int) -> list[TaskId]:
        """The oldest tasks of a lane that is last in first out, as many as have a turn among the next `count`."""
        due, self._since_oldest[lane] = oldest_turns(self._since_oldest[lane], count)
        return await self._store.ready_heads(lane, min(due, count)) if due else []

    async def _assigned(self, batch: list[Assignment], term: int, now: Instant) -> Applied:
        try:
            return await self._store.assign(batch, term, now, self.sight.fences({item.lane for item in batch}))
        except OutcomeUnknown:
            # It may have been committed. If that cannot be read now, the ledger lacks it: begin from the store then.
            self._term = None
            # Tasks that carry our execution were committed, the rest was not.
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
            self._term = term
            return applied

    async def _give_back(self, batch: Sequence[Assignment], applied: Applied) -> None:
        """Offer refused tasks again that are still ready; tasks that changed are left to what changed them."""
        refused = [item for item in batch if item.task in applied.refused]
        self._ledger.doubt([item.node for item in refused])
        unready = [item for item in refused if applied.refused[item.task].code in _STILL_READY]
        if unready:
            self._looked_at = float("-inf")
            await self._broker.ready.offer(_by_lane(unready))

    async def _refill(self, taken: Mapping[LaneId, Sequence[NodeState]]) -> bool:
        """Reload windows that this pass left low; True if there were any."""
        deep = self.sight.deep
        low = [lane for lane, nodes in taken.items() if lane in deep and deep[lane] - len(nodes) < REFILL_BELOW]
        low += [lane for lane, size in deep.items() if not size]
        if low:
            await self.sight.show(low)
        return bool(low)

    async def _tell_blocked(self, served: Container[LaneId], term: int, now: Instant) -> None:
        """Record one event when a class of tasks has no feasible node, not one per task or pass."""
        placer = self.sight.placer
        waiting = {
            (
                ready.lane.requirement_id,
                ready.lane.project if ready.lane.project in placer.reserved_for else "",
            ): ready.lane
            for ready in self.sight.order
            if ready.lane.id not in served
        }
        blocked: set[Requirement] = set()
        told = []
        for lane in waiting.values():
            requirement = lane.requirement
            if requirement in blocked or not placer.is_hopeless(self.sight.asked(requirement), lane.project):
                continue
            blocked.add(requirement)
            if requirement not in self._blocked:
                found = explain_placement(requirement, lane.project, placer.states, placer.overcommit)
                shared = {"task_type": requirement.task_type, "project": lane.project, "why": found.sentence}
                told.append(EventBatch(Kind.NODE_UNAVAILABLE, shared=shared))
        self._blocked = blocked
        if told:
            await self._store.record(told, now, term)

    async def _tell_strategies(self, term: int, now: Instant) -> None:
        if news := self._strategies.news:
            await self._store.record(news, now, term)
            self._strategies.wrote(len(news))


_STILL_READY = (Code.NODE_NOT_READY, Code.OVER_QUOTA)
_NOT_TAKEN = Refusal(Code.NODE_NOT_READY, "its node did not take it")
_NOT_PENDING = Refusal(Code.NOT_READY, "is no longer pending")


def _lanes_of(batch: Sequence[Assignment]) -> dict[LaneId, list[Assignment]]:
    """The assignments of each lane; a batch is made lane by lane, and stays so."""
    return {lane: list(items) for lane, items in groupby(batch, key=attrgetter("lane"))}


def _by_lane(batch: Sequence[Assignment]) -> dict[LaneId, list[TaskId]]:
    return {lane: [item.task for item in items] for lane, items in _lanes_of(batch).items()}
