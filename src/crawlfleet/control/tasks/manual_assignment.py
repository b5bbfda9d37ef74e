"""Assigns a pending task to a node by hand: filters and quotas still hold, and only the choice of the node is a
person's."""

from __future__ import annotations

from functools import partial

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.exhausted_quotas import exhausted_daily_quotas
from crawlfleet.control.leader.node_states import node_states
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.errors import NotFound
from crawlfleet.model.ids import ExecutionId, IdFactory, NodeId, TaskId, node_text
from crawlfleet.model.node import DEFAULT_CLUSTER
from crawlfleet.model.project import Project, Use
from crawlfleet.model.refusal import Code, Refusal
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import PlacementStore
from crawlfleet.ports.task_store import Assignment
from crawlfleet.scheduling.explain.task import refusal_phrase
from crawlfleet.scheduling.placement.filters import Ask, first_refusal
from crawlfleet.scheduling.quotas.daily_quota import DailyQuotaViolation
from crawlfleet.scheduling.quotas.project_quota import Allowance


class AssignByHand:
    def __init__(
        self, *, store: PlacementStore, broker: Broker, clock: Clock, id_factory: IdFactory, configure: Configure
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._ids = id_factory
        self._configure = configure

    async def assign_task(self, task: TaskId, node: NodeId) -> ExecutionId | Refusal:
        """Assign the task to the node; returns the execution. A node that only pulls gets it with its next pull.
        Raises NotFound for a node or a task that does not exist."""
        states = {state.node.id: state for state in await node_states(self._store, self._configure, is_by_hand=True)}
        if node not in states:
            raise NotFound(f"no node {node_text(node)}")
        row = (await self._store.live_tasks([task])).get(task)
        if row is None or row.status is not TaskStatus.PENDING:
            return Refusal(Code.NOT_READY, "is not pending" if row is None else f"is {row.status.word}")
        (lane,) = await self._store.load_lanes([row.lane])
        overcommit = self._configure.cached_config(DEFAULT_CLUSTER).settings.overcommit
        if refusal := first_refusal(states[node], Ask(lane.requirement, lane.project, overcommit, lane.priority)):
            return Refusal(Code.DOES_NOT_FIT, refusal_phrase(refusal))
        item = Assignment(task, row.lane, self._ids.new_id(), node, states[node].node.session)
        now = self._clock.now()
        exhausted = (
            await exhausted_daily_quotas(self._store, [await self._store.load_project(lane.project)], now)
        ).get(lane.project)
        refuses = partial(_quota_refusal, lane.requirement, exhausted)
        applied = await self._store.assign_by_hand(item, lane.project, refuses, now)
        if not applied.refused:
            await self._broker.ready_index.discard_tasks([(row.lane, task)])
        await publish_hints(self._broker, applied)
        return applied.refused.get(task, item.execution)


def _quota_refusal(
    requirement: Requirement, exhausted: DailyQuotaViolation | None, project: Project, use: Use
) -> Refusal | None:
    full = Allowance(project, use, exhausted).violation(requirement)
    return Refusal(Code.OVER_QUOTA, full.sentence) if full else None
