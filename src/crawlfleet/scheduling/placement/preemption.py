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
from crawlfleet.model.requirement import LaneId, Requirement
from crawlfleet.scheduling.placement.filters import (
    CLASS_FILTERS,
    NODE_FILTERS,
    Ask,
    NodeState,
    is_memory_exhausted,
    tasks_fit,
)
from crawlfleet.scheduling.quotas.project_quota import Allowance

_TOGETHER = 16
"""Number of a node's youngest tasks of which sets of several are tried."""


@dataclass(frozen=True, slots=True)
class Rules:
    gap: int = 2
    """Ranks that the waiting task must be above its victim, age counted in."""
    patience_s: float = 1.0
    """Seconds that it must have waited: most capacity becomes free by itself."""
    times_most: int = 3
    """Limit on how often one task is preempted in its round."""
    together_most: int = 3
    """Limit on the victims for one task."""


class Waiting(NamedTuple):
    """A lane whose tasks wait for capacity."""

    lane: LaneId
    requirement: Requirement
    project: str
    priority: int
    rank: int
    """Priority, raised by age, as the order of service has it."""
    size: int = 1
    waited_s: float = float("inf")


class Held(NamedTuple):
    """A task on a node that may be preempted."""

    task: TaskId
    node: NodeId
    requirement: Requirement
    priority: int
    rank: int
    """Rank that it would have in the queue again."""
    since: Instant
    times: int = 0
    """Number of times it was preempted before."""


class Room(NamedTuple):
    """Capacity freed on a node, by stopping the victims, for the task at this position of the lane."""

    lane: LaneId
    position: int
    node: NodeId
    victims: tuple[Held, ...]


def make_room(
    waiting: Iterable[Waiting],
    nodes: Sequence[NodeState],
    held: Iterable[Held],
    stopping: Iterable[tuple[NodeId, Requirement]],
    *,
    budget: int,
    rules: Rules = Rules(),
    overcommit: float = 1.0,
    allowances: Mapping[str, Allowance] | None = None,
) -> list[Room]:
    """Choose at most `budget` victims in all. `waiting` is in the order of service. Deducts from the states as it goes,
    and from the `allowances` of projects with quotas: no task is stopped for work that may not run."""
    plan = _Plan(nodes, rules, budget, overcommit, allowances or {})
    for node, requirement in stopping:
        plan.give_back(node, requirement)
    for one in held:
        if one.requirement.preemptible and one.times < rules.times_most:
            plan.victims.setdefault(one.node, []).append(one)
    for ones in plan.victims.values():
        # The youngest first: the least work is lost.
        ones.sort(key=lambda one: (-one.since, one.task))
    for want in waiting:
        plan.serve(want)
    return plan.rooms


class _Plan:
    def __init__(
        self,
        nodes: Sequence[NodeState],
        rules: Rules,
        budget: int,
        overcommit: float,
        allowances: Mapping[str, Allowance],
    ) -> None:
        self.rules = rules
        self.budget = budget
        self.rooms: list[Room] = []
        self.victims: dict[NodeId, list[Held]] = {}
        self._states = {state.node.id: state for state in nodes}
        anything = Ask(Requirement(""), "")
        open_filters = (*NODE_FILTERS, is_memory_exhausted)
        self._open = [state for state in nodes if not any(refuses(state, anything) for refuses in open_filters)]
        self._unserved: list[Ask] = []
        self._overcommit = overcommit
        self._allowances = allowances

    def give_back(self, node: NodeId, requirement: Requirement) -> None:
        if (state := self._states.get(node)) is not None:
            _move(state, requirement, -1)

    def serve(self, want: Waiting) -> None:
        allowance = self._allowances.get(want.project)
        size = want.size if allowance is None else min(want.size, allowance.fit(want.requirement))
        ask = Ask(want.requirement, want.project, self._overcommit)
        nodes = [state for state in self._open if not any(refuses(state, ask) for refuses in CLASS_FILTERS)]
        served = _fill(nodes, ask, size)
        if want.waited_s >= self.rules.patience_s:
            with_victims = [state for state in nodes if self.victims.get(state.node.id)]
            while served < size and (found := self._best(want, ask, with_victims)) is not None:
                self._take(want, served, *found)
                served += 1
        if served < size:
            self._unserved.append(ask)
        if allowance is not None:
            allowance.take(want.requirement, served)

    def _best(self, want: Waiting, ask: Ask, nodes: Sequence[NodeState]) -> tuple[NodeState, tuple[Held, ...]] | None:
        """The node and the fewest victims that are enough; of several such sets the youngest."""
        for size in range(1, min(self.rules.together_most, self.budget) + 1):
            sets = [(state, found) for state in nodes if (found := self._set_of(size, state, want, ask))]
            if sets:
                return max(sets, key=lambda one: sum(victim.since for victim in one[1]))
        return None

    def _set_of(self, size: int, state: NodeState, want: Waiting, ask: Ask) -> tuple[Held, ...]:
        if state.held + 1 - state.slots > size:
            return ()
        may_go = [one for one in self.victims[state.node.id] if self._may_stop(one, want)]
        if not ask.requirement.resources:
            # Only the number counts, not which.
            sets: Iterable[tuple[Held, ...]] = [tuple(may_go[:size])] if len(may_go) >= size else ()
        else:
            sets = combinations(may_go if size == 1 else may_go[:_TOGETHER], size)
        return next((each for each in sets if self._is_enough(state, each, ask)), ())

    def _may_stop(self, one: Held, want: Waiting) -> bool:
        return one.priority < want.priority and want.rank - one.rank >= self.rules.gap

    def _is_enough(self, state: NodeState, victims: tuple[Held, ...], ask: Ask) -> bool:
        held, reserved = state.held, dict(state.reserved)
        for one in victims:
            _move(state, one.requirement, -1)
        is_enough = tasks_fit(state, ask) > 0 and not any(self._would_take(state, other) for other in self._unserved)
        state.held = held
        # In place: other nodes of its machine may count on the very same dictionary.
        state.reserved.clear()
        state.reserved.update(reserved)
        return is_enough

    def _would_take(self, state: NodeState, other: Ask) -> bool:
        return tasks_fit(state, other) > 0 and not any(refuses(state, other) for refuses in CLASS_FILTERS)

    def _take(self, want: Waiting, position: int, state: NodeState, victims: tuple[Held, ...]) -> None:
        node = state.node.id
        for one in victims:
            _move(state, one.requirement, -1)
        self.victims[node] = [one for one in self.victims[node] if one not in victims]
        _move(state, want.requirement, 1)
        self.budget -= len(victims)
        self.rooms.append(Room(want.lane, position, node, victims))


def _fill(nodes: Sequence[NodeState], ask: Ask, count: int) -> int:
    served = 0
    for state in nodes:
        fit = min(count - served, tasks_fit(state, ask))
        if fit > 0:
            _move(state, ask.requirement, fit)
            served += fit
    return served


def _move(state: NodeState, requirement: Requirement, count: int) -> None:
    state.held = max(0, state.held + count)
    for name, amount in requirement.resources:
        state.reserved[name] = max(0.0, state.reserved.get(name, 0.0) + amount * count)
