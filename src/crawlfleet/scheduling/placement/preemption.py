"""Plans preemption: which running tasks are stopped so that more important ones, which found no capacity, can run.

The waiting lanes come in the order in which they would be served. Each uses what is free, or will be free when tasks
recalled earlier have stopped; no second task is stopped for one for which another is stopping already. Victims are
chosen only for what is left over, and only where the capacity they free is enough and would go to that task: a class
that is served earlier and would fit there as well would get it instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import (
    NODE_FILTERS,
    REQUIREMENT_FILTERS,
    Ask,
    NodeState,
    count_fitting,
    is_memory_exhausted,
)
from crawlfleet.scheduling.quotas.project_quota import Allowance

_MAX_COMBINED = 16
"""Number of a node's youngest tasks of which sets of several are tried."""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """When a task may be preempted for another."""

    min_rank_gap: int = 2
    """Ranks that the waiting task must be above its victim, age counted in."""
    min_wait_s: float = 1.0
    """Seconds that it must have waited: most capacity becomes free by itself."""
    max_preemptions: int = 3
    """Limit on how often one task is preempted in its round."""
    max_victims: int = 3
    """Limit on the victims for one task."""


class WaitingLane(NamedTuple):
    """A lane whose tasks wait for capacity."""

    lane: LaneId
    requirement: Requirement
    project: str
    priority: int
    rank: int
    """Priority, raised by age, as the order of service has it."""
    size: int = 1
    waited_s: float = float("inf")


class PreemptibleTask(NamedTuple):
    """A task on a node that may be preempted."""

    task: TaskId
    node: NodeId
    requirement: Requirement
    priority: int
    rank: int
    """Rank that it would have in the queue again."""
    since: Instant
    preemptions: int = 0
    """Number of times it was preempted before."""


class FreedCapacity(NamedTuple):
    """Capacity freed on a node, by stopping the victims, for the task at this position of the lane."""

    lane: LaneId
    position: int
    node: NodeId
    victims: tuple[PreemptibleTask, ...]


def plan_preemptions(
    waiting: Iterable[WaitingLane],
    nodes: Sequence[NodeState],
    held: Iterable[PreemptibleTask],
    stopping: Iterable[tuple[NodeId, Requirement]],
    *,
    budget: int,
    rules: PreemptionRules = PreemptionRules(),
    overcommit: float = 1.0,
    allowances: Mapping[str, Allowance] | None = None,
) -> list[FreedCapacity]:
    """Choose at most `budget` victims in all. `waiting` is in the order of service. Deducts from the states as it goes,
    and from the `allowances` of projects with quotas: no task is stopped for work that may not run."""
    plan = _PreemptionPlan(nodes, rules, budget, overcommit, allowances or {})
    for node, requirement in stopping:
        plan.release_task(node, requirement)
    for held_task in held:
        if held_task.requirement.preemptible and held_task.preemptions < rules.max_preemptions:
            plan.victims.setdefault(held_task.node, []).append(held_task)
    for held_tasks in plan.victims.values():
        # The youngest first: the least work is lost.
        held_tasks.sort(key=lambda one: (-one.since, one.task))
    for lane in waiting:
        plan.serve_lane(lane)
    return plan.freed


class _PreemptionPlan:
    def __init__(
        self,
        nodes: Sequence[NodeState],
        rules: PreemptionRules,
        budget: int,
        overcommit: float,
        allowances: Mapping[str, Allowance],
    ) -> None:
        self.rules = rules
        self.budget = budget
        self.freed: list[FreedCapacity] = []
        self.victims: dict[NodeId, list[PreemptibleTask]] = {}
        self._states = {state.node.id: state for state in nodes}
        anything = Ask(Requirement(""), "")
        open_filters = (*NODE_FILTERS, is_memory_exhausted)
        self._open_nodes = [state for state in nodes if not any(refuses(state, anything) for refuses in open_filters)]
        self._unserved_asks: list[Ask] = []
        self._overcommit = overcommit
        self._allowances = allowances

    def release_task(self, node: NodeId, requirement: Requirement) -> None:
        if (state := self._states.get(node)) is not None:
            _add_tasks(state, requirement, -1)

    def serve_lane(self, waiting: WaitingLane) -> None:
        allowance = self._allowances.get(waiting.project)
        size = waiting.size if allowance is None else min(waiting.size, allowance.count_allowed(waiting.requirement))
        ask = Ask(waiting.requirement, waiting.project, self._overcommit)
        nodes = [state for state in self._open_nodes if not any(refuses(state, ask) for refuses in REQUIREMENT_FILTERS)]
        served = _fill_free_capacity(nodes, ask, size)
        if waiting.waited_s >= self.rules.min_wait_s:
            with_victims = [state for state in nodes if self.victims.get(state.node.id)]
            while served < size and (best := self._best_victims(waiting, ask, with_victims)) is not None:
                self._preempt(waiting, served, *best)
                served += 1
        if served < size:
            self._unserved_asks.append(ask)
        if allowance is not None:
            allowance.deduct(waiting.requirement, served)

    def _best_victims(
        self, waiting: WaitingLane, ask: Ask, nodes: Sequence[NodeState]
    ) -> tuple[NodeState, tuple[PreemptibleTask, ...]] | None:
        """The node and the fewest victims that are enough; of several such sets the youngest."""
        for size in range(1, min(self.rules.max_victims, self.budget) + 1):
            sets = [(state, victims) for state in nodes if (victims := self._victims_on(size, state, waiting, ask))]
            if sets:
                return max(sets, key=lambda one: sum(victim.since for victim in one[1]))
        return None

    def _victims_on(self, size: int, state: NodeState, waiting: WaitingLane, ask: Ask) -> tuple[PreemptibleTask, ...]:
        if state.held + 1 - state.slots > size:
            return ()
        preemptible = [held_task for held_task in self.victims[state.node.id] if self._may_preempt(held_task, waiting)]
        if not ask.requirement.resources:
            # Only the number counts, not which.
            sets: Iterable[tuple[PreemptibleTask, ...]] = (
                [tuple(preemptible[:size])] if len(preemptible) >= size else ()
            )
        else:
            sets = combinations(preemptible if size == 1 else preemptible[:_MAX_COMBINED], size)
        return next((victims for victims in sets if self._is_enough(state, victims, ask)), ())

    def _may_preempt(self, held: PreemptibleTask, waiting: WaitingLane) -> bool:
        return held.priority < waiting.priority and waiting.rank - held.rank >= self.rules.min_rank_gap

    def _is_enough(self, state: NodeState, victims: tuple[PreemptibleTask, ...], ask: Ask) -> bool:
        held, reserved = state.held, dict(state.reserved)
        for victim in victims:
            _add_tasks(state, victim.requirement, -1)
        is_enough = count_fitting(state, ask) > 0 and not any(
            self._would_take(state, other) for other in self._unserved_asks
        )
        state.held = held
        # In place: other nodes of its machine may count on the very same dictionary.
        state.reserved.clear()
        state.reserved.update(reserved)
        return is_enough

    def _would_take(self, state: NodeState, other: Ask) -> bool:
        return count_fitting(state, other) > 0 and not any(refuses(state, other) for refuses in REQUIREMENT_FILTERS)

    def _preempt(
        self, waiting: WaitingLane, position: int, state: NodeState, victims: tuple[PreemptibleTask, ...]
    ) -> None:
        node = state.node.id
        for victim in victims:
            _add_tasks(state, victim.requirement, -1)
        self.victims[node] = [victim for victim in self.victims[node] if victim not in victims]
        _add_tasks(state, waiting.requirement, 1)
        self.budget -= len(victims)
        self.freed.append(FreedCapacity(waiting.lane, position, node, victims))


def _fill_free_capacity(nodes: Sequence[NodeState], ask: Ask, count: int) -> int:
    served = 0
    for state in nodes:
        fit = min(count - served, count_fitting(state, ask))
        if fit > 0:
            _add_tasks(state, ask.requirement, fit)
            served += fit
    return served


def _add_tasks(state: NodeState, requirement: Requirement, count: int) -> None:
    state.held = max(0, state.held + count)
    for name, amount in requirement.resources:
        state.reserved[name] = max(0.0, state.reserved.get(name, 0.0) + amount * count)
