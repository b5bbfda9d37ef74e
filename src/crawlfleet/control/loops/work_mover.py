"""Moves work away from nodes that keep failing: tasks they held when they became unhealthy are recalled for others."""

from __future__ import annotations

from dataclasses import dataclass

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.node_states import node_states
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model.ids import node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import DEFAULT_CLUSTER, Node
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.nodes.health import is_on_trial
from crawlfleet.scheduling.placement.filters import Ask, NodeState, is_suitable
from crawlfleet.scheduling.tasks import task_state_machine

MAX_MOVED = 500
"""Tasks moved in one pass: the next is two seconds away."""


@dataclass(frozen=True, slots=True)
class MoveReport:
    moved: int = 0

    def __bool__(self) -> bool:
        return False


class WorkMover(LeaderLoop):
    name = "work_mover"
    pause_s = 2.0

    def __init__(
        self, *, store: PlacementStore, broker: Broker, clock: Clock, leadership: LeadershipState, configure: Configure
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._configure = configure

    async def run_term(self, term: int, now: Instant) -> MoveReport:
        failing = [node for node in await self._store.load_nodes() if node.is_session_open and is_on_trial(node)]
        if not failing:
            return MoveReport()
        states = await node_states(self._store, self._configure)
        return MoveReport(sum([await self._move_tasks(node, states, term, now) for node in failing]))

    async def _move_tasks(self, node: Node, states: list[NodeState], term: int, now: Instant) -> int:
        rows = sorted((await self._store.held_tasks([node.id]))[node.id], key=lambda row: row.assigned_at or 0)
        if rows and (rows[-1].assigned_at or 0) > (node.health_at or 0):
            # The newest task assigned since then is its trial, which is to end where it is.
            rows.pop()
        lanes = {lane.id: lane for lane in await self._store.load_lanes(sorted({row.lane for row in rows}))}
        overcommit = self._configure.cached_config(DEFAULT_CLUSTER).settings.overcommit
        others = [state for state in states if state.node.id != node.id and not is_on_trial(state.node)]
        movable = {
            lane.id
            for lane in lanes.values()
            if any(is_suitable(state, Ask(lane.requirement, lane.project, overcommit)) for state in others)
        }
        executions = {row.id: row.execution for row in rows if row.lane in movable}
        chosen = dict(list(executions.items())[:MAX_MOVED])
        if not chosen:
            return 0
        applied = await self._store.change_tasks(
            list(chosen), task_state_machine.move_executions(chosen, f"{node_text(node.id)} keeps failing"), now, term
        )
        await publish_hints(self._broker, applied)
        if applied.after:
            log.warning("tasks_moved", node=node_text(node.id), count=len(applied.after))
        return len(applied.after)
