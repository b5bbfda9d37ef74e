"""Places ready tasks on nodes, whole batches at a time.

A pass releases the slots that became free, plans a round (order, shares, quotas, placement), commits the batch
`pending -> assigned` under the term, and wakes the nodes of what the store confirmed. Nothing is delivered before that.

What it knows (the slot ledger and the cluster view) is a cache. A lost hint costs at most the second until the next
refresh; when queues, projects or nodes change, the signal LOOK asks for one before the next round. A caller that must
be sure that no round planned before is still on its way waits for `placing`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from operator import attrgetter
from typing import Protocol

from crawlfleet.control.leader.cluster_view import ClusterView
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.placement_context import PlacementContext
from crawlfleet.control.leader.recent_placements import RecentPlacements
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.leader.stuck_lanes import StuckLaneReporter
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.errors import NotLeader, OutcomeUnknown, Unavailable
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import IdFactory, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.observe.tracing import MAX_LINKS, Tracing
from crawlfleet.ports.broker import LEADER, LOOK, PULLS, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EventStore
from crawlfleet.ports.store import PlacementStore
from crawlfleet.ports.task_store import Applied, Assignment
from crawlfleet.scheduling.placement.dispatch_round import RoundLimits
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.lane_order import count_oldest_turns
from crawlfleet.scheduling.placement.retry_placement import avoid_failed_nodes

MAX_BATCH = 500
"""Tasks in one commit: larger ones win little, and a task of higher priority that comes meanwhile waits for them."""
QUANTUM = 128
"""Tasks of one lane that are placed before the next lane of the same rank has its turn."""
REFRESH_S = 1.0
"""Maximum age of the view of nodes, queues and lanes."""


class _DispatchStore(PlacementStore, EventStore, Protocol):
    pass


@dataclass(frozen=True, slots=True)
class DispatchReport:
    """What one pass placed; true if there is more to place."""

    placed: int = 0
    refused: int = 0
    stale: int = 0
    """Number of refused tasks that were no longer pending."""
    has_more: bool = False

    def __bool__(self) -> bool:
        return self.has_more


class Dispatcher(LeaderLoop):
    name = "dispatcher"
    pause_s = REFRESH_S

    def __init__(
        self,
        *,
        store: _DispatchStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        ledger: SlotLedger,
        id_factory: IdFactory,
        view: ClusterView,
        placing: asyncio.Lock,
        context: PlacementContext,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._ids = id_factory
        self._placing = placing
        self.tracing = tracing
        self._strategies, self._failed_nodes = context.strategies, context.failed_nodes
        self.view = view
        self._term: int | None = None
        self._generation = ""
        self._refreshed_at = float("-inf")
        self._blocked: set[Requirement] = set()
        self._stuck_lanes = StuckLaneReporter(store=store, clock=clock, view=view)
        self._recent_placements = RecentPlacements()
        self._since_oldest: Counter[LaneId] = Counter()
        """Tasks placed since the oldest task had a turn, by lane that is last in first out."""

    @property
    def blocked_requirements(self) -> frozenset[Requirement]:
        """Requirements of waiting tasks that no node can meet, as of the last look at the store."""
        return frozenset(self._blocked)

    async def wait(self, pause_s: float) -> None:
        if pause_s > 0 and self.leadership.term is not None:
            await self._broker.signals.wait_for_signal(LEADER, pause_s)
        else:
            await super().wait(0)

    async def run_term(self, term: int, now: Instant) -> DispatchReport:
        async with self._placing:
            return await self._dispatch(term, now)

    async def _dispatch(self, term: int, now: Instant) -> DispatchReport:
        if term != self._term:
            await self._load_term(term)
        self._ledger.release_all(await self._broker.freed_slots.pop_slots())
        if await self._broker.signals.wait_for_signal(LOOK, 0):
            self._refreshed_at = float("-inf")
        is_refreshing = self._clock.monotonic() - self._refreshed_at >= REFRESH_S
        if await self._broker.signals.wait_for_signal(PULLS, 0) and not is_refreshing:
            is_refreshing = not await self.view.load_pulls()
        if is_refreshing:
            await self._refresh_view()
        await self.view.apply_changes(term, now)
        round_plan = self.view.plan_round(RoundLimits(MAX_BATCH, QUANTUM), now)
        self._strategies.report_unknown(self.view.unknown_strategies, self.view.default_strategy)
        self._stuck_lanes.record_served(round_plan.nodes)
        if self.tracing is None or not round_plan.nodes:
            report = await self._commit(round_plan.nodes, term, now)
        else:
            report = await self._commit_traced(self.tracing, round_plan.nodes, term, now)
        is_refilled = await self.view.refill_windows(round_plan.nodes)
        if is_refreshing:
            await self._report_blocked(round_plan.nodes, term, now)
            await self._stuck_lanes.report_stuck(self._blocked, term, now)
            await self._report_strategies(term, now)
        if report.placed:
            log.debug("tasks_placed", count=report.placed, refused=report.refused)
        # A task that was not pending any more only took the place of tasks behind it.
        has_more = (
            report.stale > 0
            or (report.placed > 0 and (round_plan.is_full or is_refilled))
            or self.view.has_lanes_without_window
        )
        if not has_more and (nodes := self.view.pulls.pop_new()):
            # Their calls need not wait longer than they asked for: there was nothing more for them.
            await self._broker.signals.send_signals([node_topic(node) for node in nodes])
        return replace(report, has_more=has_more)

    async def _load_term(self, term: int) -> None:
        """Begin a term: drop all caches and load them from the store."""
        self._ledger.clear()
        self._stuck_lanes.clear()
        self._recent_placements.clear()
        self.view.reset()
        await self._broker.freed_slots.pop_slots()
        nodes = await self._store.load_nodes()
        held = await self._store.held_tasks([node.id for node in nodes])
        rows = [row for tasks in held.values() for row in tasks]
        lanes = {lane.id: lane for lane in await self._store.load_lanes(sorted({row.lane for row in rows}))}
        now_mono = self._clock.monotonic()
        for row in rows:
            lane = lanes[row.lane]
            self._ledger.hold_one(row.node, row.execution, lane.requirement, now_mono, lane.project)
        await self._broker.ready_index.clear()
        await self._refresh_view()
        self._term = term

    async def _refresh_view(self) -> None:
        """Refresh the view from the store: hints may have been lost."""
        generation = await self._broker.load_generation()
        if generation != self._generation:
            self._generation = generation
            self._ledger.is_doubted = True
            await self._broker.ready_index.clear()
        await self.view.refresh()
        self._refreshed_at = self._clock.monotonic()

    async def _commit(self, chosen: Mapping[LaneId, list[NodeState]], term: int, now: Instant) -> DispatchReport:
        if not chosen:
            return DispatchReport()
        self._recent_placements.forget_before(self._clock.monotonic())
        batch = await self._without_bounces(await self._make_batch(chosen))
        if not batch:
            return DispatchReport()
        try:
            applied = await self._assign(batch, term, now)
        except (Unavailable, NotLeader):
            self._ledger.mark_doubted([item.node for item in batch])
            await self._broker.ready_index.offer_tasks(_tasks_by_lane(batch))
            raise
        if self._failed_nodes:
            self._failed_nodes.forget_tasks(applied.after)
        now_mono = self._clock.monotonic()
        assigned = [item for item in batch if item.task not in applied.refused] if applied.refused else batch
        for lane_id, items in _by_lane(assigned).items():
            lane = self.view.get_lane(lane_id)
            pairs = [(item.node, item.execution) for item in items]
            self._ledger.hold_all(pairs, lane.requirement, now_mono, lane.project, is_unknown_to_placer=False)
        self._recent_placements.record_placements(assigned, now_mono)
        await self._broker.signals.send_signals([node_topic(node) for node in applied.nodes_to_wake])
        if not applied.refused:
            return DispatchReport(len(batch))
        await self._return_refused(batch, applied)
        stale = sum(refusal.code is not Code.NODE_NOT_READY for refusal in applied.refused.values())
        return DispatchReport(len(assigned), len(applied.refused), stale)

    async def _commit_traced(
        self, tracing: Tracing, chosen: Mapping[LaneId, list[NodeState]], term: int, now: Instant
    ) -> DispatchReport:
        """Commit inside a span that links the submissions of the first tasks."""
        with tracing.start_place() as span:
            report = await self._commit(chosen, term, now)
            links = min(report.placed, MAX_LINKS) if span.traceparent else 0
            placed = self._recent_placements.newest_tasks(links)
            deliveries = await self._store.load_deliveries(placed) if placed else {}
            creations = [delivery.traceparent for delivery in deliveries.values() if delivery.traceparent]
            span.link_tasks(creations, report.placed)
            return report

    async def _make_batch(self, chosen: Mapping[LaneId, list[NodeState]]) -> list[Assignment]:
        """Pop the tasks for these nodes, lane by lane."""
        lifo = [lane for lane in chosen if self.view.is_lifo(lane)]
        oldest = {lane: await self._oldest_tasks(lane, len(chosen[lane])) for lane in lifo}
        wants = {lane: len(nodes) - len(oldest.get(lane, ())) for lane, nodes in chosen.items()}
        popped = await self._broker.ready_index.pop_tasks({lane: want for lane, want in wants.items() if want})
        if oldest:
            await self._broker.ready_index.discard_tasks(
                [(lane, task) for lane, tasks in oldest.items() for task in tasks]
            )
        batch: list[Assignment] = []
        for lane, nodes in chosen.items():
            tasks = list(dict.fromkeys([*oldest.get(lane, ()), *popped.get(lane, ())]))
            targets = [state.node for state in self._avoid_failed_nodes(tasks, nodes[: len(tasks)], lane)]
            node_columns = ([node.id for node in targets], [node.session for node in targets])
            batch += map(Assignment, tasks, repeat(lane), self._ids.new_ids(len(tasks)), *node_columns)
            self._ledger.mark_doubted([state.node.id for state in nodes[len(tasks) :]])
        return batch

    def _avoid_failed_nodes(
        self, tasks: Sequence[TaskId], nodes: list[NodeState], lane_id: LaneId
    ) -> Sequence[NodeState]:
        """Move tasks off nodes where they failed last or just came back from, where that is known and possible."""
        failed_on = self._recent_placements.recent_nodes(tasks)
        if self._failed_nodes:
            failed_on |= self._failed_nodes.failed_nodes(tasks)
        if not failed_on:
            return nodes
        lane = self.view.get_lane(lane_id)
        used = avoid_failed_nodes(tasks, nodes, failed_on, lambda node: self.view.place_elsewhere(node, lane))
        self._ledger.mark_doubted(
            chosen.node.id for chosen, state in zip(nodes, used, strict=True) if chosen is not state
        )
        return used

    async def _without_bounces(self, batch: list[Assignment]) -> list[Assignment]:
        """Leave tasks for a later pass that their session has just handed back and no other node can take."""
        bounced = self._recent_placements.bounced_tasks(batch)
        if not bounced:
            return batch
        later = [item for item in batch if item.task in bounced]
        self._ledger.mark_doubted([item.node for item in later])
        await self._broker.ready_index.offer_tasks(_tasks_by_lane(later))
        return [item for item in batch if item.task not in bounced]

    async def _oldest_tasks(self, lane: LaneId, count: int) -> list[TaskId]:
        """The oldest tasks of a lane that is last in first out, as many as have a turn among the next `count`."""
        due, self._since_oldest[lane] = count_oldest_turns(self._since_oldest[lane], count)
        return await self._store.ready_heads(lane, min(due, count)) if due else []

    async def _assign(self, batch: list[Assignment], term: int, now: Instant) -> Applied:
        try:
            fences = self.view.project_fences({item.lane for item in batch})
            pulls = self.view.pulls
            numbers = pulls.open_numbers({item.node for item in batch}) if pulls.has_pulls() else None
            return await self._store.assign_tasks(batch, term, now, fences, numbers)
        except OutcomeUnknown:
            # It may have been committed. If that cannot be read now, the ledger lacks it: begin from the store then.
            self._term = None
            # Tasks that carry our execution were committed, the rest was not.
            live = await self._store.live_tasks([item.task for item in batch])
            applied = Applied()
            for item in batch:
                row = live.get(item.task)
                if row is not None and row.execution == item.execution:
                    applied.after[item.task] = row.status
                    applied.nodes_to_wake.add(item.node)
                else:
                    is_pending = row is not None and row.status is TaskStatus.PENDING
                    applied.refused[item.task] = _NOT_ACCEPTED if is_pending else _NOT_PENDING
            if not applied.after:
                raise
            self._term = term
            return applied

    async def _return_refused(self, batch: Sequence[Assignment], applied: Applied) -> None:
        """Offer refused tasks again that are still ready; tasks that changed are left to what changed them."""
        refused = [item for item in batch if item.task in applied.refused]
        self._ledger.mark_doubted([item.node for item in refused])
        unready = [item for item in refused if applied.refused[item.task].code in _STILL_READY]
        if unready:
            self._refreshed_at = float("-inf")
            await self._broker.ready_index.offer_tasks(_tasks_by_lane(unready))

    async def _report_blocked(self, served: Container[LaneId], term: int, now: Instant) -> None:
        """Record one event when a class of tasks has no feasible node, not one per task or pass."""
        blocked = self.view.infeasible_classes(served)
        events = []
        for requirement, lane in blocked.items():
            if requirement not in self._blocked:
                explanation = self.view.explain_placement(lane)
                shared = {"task_type": requirement.task_type, "project": lane.project, "why": explanation.sentence}
                events.append(EventBatch(Kind.NODE_UNAVAILABLE, shared=shared))
        self._blocked = set(blocked)
        if events:
            await self._store.record_events(events, now, term)

    async def _report_strategies(self, term: int, now: Instant) -> None:
        if events := self._strategies.pending_events:
            await self._store.record_events(events, now, term)
            self._strategies.drop_events(len(events))


_STILL_READY = (Code.NODE_NOT_READY, Code.OVER_QUOTA)
_NOT_ACCEPTED = Refusal(Code.NODE_NOT_READY, "its node did not take it")
_NOT_PENDING = Refusal(Code.NOT_READY, "is no longer pending")


def _by_lane(batch: Sequence[Assignment]) -> dict[LaneId, list[Assignment]]:
    """The assignments of each lane; a batch is made lane by lane, and stays so."""
    return {lane: list(items) for lane, items in groupby(batch, key=attrgetter("lane"))}


def _tasks_by_lane(batch: Sequence[Assignment]) -> dict[LaneId, list[TaskId]]:
    return {lane: [item.task for item in items] for lane, items in _by_lane(batch).items()}
