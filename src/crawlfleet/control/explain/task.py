"""Explains why a task is in its state: one sentence and its data, computed on demand from the store, by any master."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.explain.group import WhyGroup
from crawlfleet.control.explain.host_waits import AwaitedHosts
from crawlfleet.control.leader.exhausted_quotas import exhausted_daily_quotas
from crawlfleet.control.leader.node_states import node_states
from crawlfleet.control.leader.placement_context import PlacementContext
from crawlfleet.control.nodes.resource_allocation import ResourceAllocator
from crawlfleet.errors import NotFound
from crawlfleet.model.daily_quota import utc_day
from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import GroupId, TaskId, task_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import TaskRecord
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_store import HostStore
from crawlfleet.ports.queue_store import QueueStore
from crawlfleet.ports.store import CompositeStore, PlacementStore
from crawlfleet.scheduling.explain import flow, parked
from crawlfleet.scheduling.explain import task as explain
from crawlfleet.scheduling.explain.placement_reason import PlacementReason, placement_reason
from crawlfleet.scheduling.placement.filters import Ask, NodeState, is_suitable
from crawlfleet.scheduling.placement.strategies import Candidates
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation, short_quota
from crawlfleet.scheduling.quotas.project_quota import Allowance, QuotaViolation


class _ExplainedStore(PlacementStore, CompositeStore, QueueStore, HostStore, Protocol):
    pass


class Why:
    def __init__(
        self,
        *,
        store: _ExplainedStore,
        clock: Clock,
        configure: Configure,
        context: PlacementContext,
        rng: Random,
        allocate: ResourceAllocator,
    ) -> None:
        self._store = store
        self._clock = clock
        self._configure = configure
        self._context = context
        self._rng = rng
        self._allocate = allocate
        self._hosts = AwaitedHosts(store=store, configure=configure)
        self._groups = WhyGroup(store=store, clock=clock, hosts=self._hosts, explain_task=self.explain_task)

    async def explain_task(self, task: TaskId) -> explain.Explanation:
        record = (await self._store.load_tasks([task])).get(task)
        if record is None:
            raise NotFound(f"no task {task_text(task)}")
        if record.group is not None and (place := await self._store.place_in_flow(task)) is not None:
            explanation = flow.explain_step(record, place)
            if explanation is not None:
                return explanation
        if record.status is TaskStatus.WAITING and (parking := (await self._store.parked_tasks([task])).get(task)):
            violation = await self._find_short_quota(record.project) if parking.cause is ParkCause.DAILY_QUOTA else None
            explanation = parked.explain_parked(record, parking, self._clock.now(), violation)
            if explanation is not None:
                return explanation
        if record.status is TaskStatus.RETRYING:
            record = replace(record, reason=await self._last_failure(task))
        (lane,) = await self._store.load_lanes([record.lane])
        nodes, now = await node_states(self._store, self._configure), self._clock.now()
        is_pending = record.status is TaskStatus.PENDING
        preempted = (await self._store.task_preemptions([task])).get(task) if lane.requirement.preemptible else None
        return explain.explain_task(
            record,
            lane,
            is_queue_paused=lane.queue in await self._store.paused_queues(),
            parents=await self._store.awaited_parents(task),
            nodes=nodes,
            now=now,
            overcommit=self._overcommit,
            quota=await self._find_full_quota(lane) if is_pending else None,
            placement_reason=await self._explain_placement(record, lane.requirement, nodes, now)
            if record.status.is_held
            else None,
            stopping=[held.node for held in await self._store.stopping_executions(task)] if is_pending else (),
            hosts=await self._hosts.find_waits(record, now),
            preempted=None if preempted is None else explain.PreemptionHistory(preempted.times, preempted.waiter),
        )

    async def explain_group(self, group: GroupId) -> explain.Explanation:
        return await self._groups.explain_group(group)

    @property
    def _overcommit(self) -> float:
        return float(self._configure.cached_config(DEFAULT_CLUSTER).settings.overcommit)

    async def _find_short_quota(self, project: str) -> DailyQuotaViolation | None:
        day = utc_day(self._clock.now())
        described, used = await self._store.load_project(project), await self._store.day_uses([project], day)
        return short_quota(described, used[project], day)

    async def _find_full_quota(self, lane: Lane) -> QuotaViolation | DailyQuotaViolation | None:
        project = await self._store.load_project(lane.project)
        exhausted = (await exhausted_daily_quotas(self._store, [project], self._clock.now())).get(project.name)
        if not project.quotas.limits_running and exhausted is None:
            return None
        uses = await self._store.project_uses([lane.project])
        return Allowance(project, uses[lane.project].held, exhausted).violation(lane.requirement)

    async def _explain_placement(
        self, task: TaskRecord, requirement: Requirement, nodes: Sequence[NodeState], now: Instant
    ) -> PlacementReason | None:
        """Return the reasons for the node that has the task, by the present state of the nodes."""
        cluster = requirement.cluster or DEFAULT_CLUSTER
        name = requirement.strategy or self._configure.cached_config(cluster).settings.strategy
        make = self._context.strategies.factories.get(name)
        state = next((state for state in nodes if state.node.id == task.node), None)
        if make is None or state is None:
            return None
        knowledge = await self._context.evidence.for_task(requirement, now)
        # Compared as in placement, among the feasible nodes, though some of them, and this node too, may be full now.
        ask = Ask(requirement, task.project, self._overcommit)
        others = [other for other in nodes if other is state or is_suitable(other, ask)]
        chosen = placement_reason(name, make(Candidates(requirement, others, self._rng, 0, knowledge)), state)
        live = await self._store.live_tasks([task.id]) if requirement.resources else {}
        allocations = await self._allocate.allocate_tasks(state.node.id, list(live.values()))
        return replace(chosen, allocation=allocations.get(task.id, {}))

    async def _last_failure(self, task: TaskId) -> str | None:
        executions = await self._store.task_executions(task)
        failures = [execution.failure.message for execution in executions if execution.failure is not None]
        return failures[-1] if failures else None
