"""Placement: filter, then score, for a whole class of tasks at once.

A placer serves one pass. Which nodes would do for a class is found once; they stand in a heap by the price of the
next task, and each task placed only moves one node down. Nothing here looks at a single task.

Several classes share the nodes, so that a price in one class's heap may be old when another class has put work on the
node since. Prices only rise, so it is enough to look again when such a node comes to the top.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence

from crawlfleet.model.ids import NodeId
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.filters import (
    CLASS_FILTERS,
    NODE_FILTERS,
    Ask,
    Filter,
    NodeState,
    has_no_room,
    is_memory_exhausted,
    tasks_fit,
)
from crawlfleet.scheduling.strategies import (
    BUILT_IN,
    DEFAULT_STRATEGY,
    NOTHING_KNOWN,
    Candidates,
    Knowledge,
    Make,
    Strategy,
)

Cursors = dict[Requirement, NodeId]
"""The node that took the last task of each class. The caller keeps it from pass to pass."""

_HeapEntry = tuple[float, float, NodeId, int, int, NodeState]
"""Cost, chance (so that ties spread), id, `held` when it was priced, tasks given by this class, node."""


class _ClassPlan:
    """The nodes that would do for one class, cheapest first."""

    __slots__ = ("ask", "heap", "nodes", "strategy")

    def __init__(self, ask: Ask, nodes: list[NodeState], strategy: Strategy, rng: random.Random) -> None:
        self.ask = ask
        self.nodes = nodes
        self.strategy = strategy
        self.heap: list[_HeapEntry] = [
            (strategy.cost(state, 0), rng.random(), state.node.id, state.held, 0, state) for state in nodes
        ]
        heapq.heapify(self.heap)


class Placer:
    """Deducts from the states as it places. While it is in use, nobody else changes them."""

    def __init__(
        self,
        nodes: Sequence[NodeState],
        *,
        rng: random.Random,
        default_strategy: str = DEFAULT_STRATEGY,
        cursors: Cursors | None = None,
        overcommit: float = 1.0,
        strategies: Mapping[str, Make] = BUILT_IN,
        knowledge: Knowledge = NOTHING_KNOWN,
    ) -> None:
        self.cursors: Cursors = {} if cursors is None else cursors
        self.unknown_strategies: set[str] = set()
        """Names that were asked for and are none; the default served instead."""
        self._nodes = {state.node.id: state for state in nodes}
        self._rng = rng
        self._default = default_strategy
        self._overcommit = overcommit
        self._strategies = strategies
        self._knowledge = knowledge
        self._open: list[NodeState] | None = None
        self._plans: dict[tuple[Requirement, str], _ClassPlan] = {}

    def place(self, requirement: Requirement, project: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks, in order; fewer when no more fit."""
        plan = self._plan(requirement, project)
        heap, cost = plan.heap, plan.strategy.cost
        resources = requirement.resources
        chosen: list[NodeState] = []
        while heap and len(chosen) < count:
            _, chance, node, held, given, state = heap[0]
            # A node of the same machine may have taken the room meanwhile.
            if held == state.held and not (state.is_shared and has_no_room(state, plan.ask)):
                chosen.append(state)
                given += 1
                state.held = held = held + 1
                if resources:
                    _reserve(state, resources, 1)
            else:
                held = state.held
            if held < state.slots and not (resources and has_no_room(state, plan.ask)):
                heapq.heapreplace(heap, (cost(state, given), chance, node, held, given, state))
            else:
                heapq.heappop(heap)
        if chosen:
            self.cursors[requirement] = chosen[-1].node.id
        return chosen

    def room(self, requirement: Requirement, project: str) -> int:
        """How many tasks of the class fit now, if no other class takes the place."""
        plan = self._plan(requirement, project)
        return sum(tasks_fit(state, plan.ask) for state in plan.nodes)

    def other_than(self, node_id: NodeId, requirement: Requirement, project: str) -> NodeState | None:
        """Another node for one more task; None when no other has room. Looks at every node: for single tasks only."""
        plan = self._plan(requirement, project)
        found = [state for state in plan.nodes if state.node.id != node_id and tasks_fit(state, plan.ask) > 0]
        if not found:
            return None
        state = min(found, key=lambda state: (plan.strategy.cost(state, 0), state.node.id))
        state.held += 1
        _reserve(state, requirement.resources, 1)
        return state

    def undo(self, requirement: Requirement, node_id: NodeId, count: int) -> None:
        """Give back what was deducted for tasks that were not assigned after all."""
        state = self._nodes[node_id]
        state.held = max(0, state.held - count)
        _reserve(state, requirement.resources, -count)
        # Prices fell, and a node that was full may be open again: all heaps are old.
        self._plans.clear()

    def _plan(self, requirement: Requirement, project: str) -> _ClassPlan:
        plan = self._plans.get((requirement, project))
        if plan is None:
            ask = Ask(requirement, project, self._overcommit)
            if self._open is None:
                self._open = _passing(list(self._nodes.values()), ask, (*NODE_FILTERS, is_memory_exhausted))
            with_slots = [state for state in self._open if state.held < state.slots]
            nodes = _passing(with_slots, ask, (*CLASS_FILTERS, has_no_room))
            last = self.cursors.get(requirement, 0)
            candidates = Candidates(requirement, nodes, self._rng, last, self._knowledge)
            strategy = self._maker(requirement.strategy)(candidates)
            plan = self._plans[requirement, project] = _ClassPlan(ask, nodes, strategy, self._rng)
        return plan

    def _maker(self, wanted: str | None) -> Make:
        for name in (wanted, self._default):
            if name is not None:
                if name in self._strategies:
                    return self._strategies[name]
                self.unknown_strategies.add(name)
        return BUILT_IN[DEFAULT_STRATEGY]


def _passing(nodes: list[NodeState], ask: Ask, filters: tuple[Filter, ...]) -> list[NodeState]:
    # Filter by filter rather than node by node: each one has only what the others left.
    for refuses in filters:
        nodes = [state for state in nodes if refuses(state, ask) is None]
    return nodes


def _reserve(state: NodeState, resources: tuple[tuple[str, float], ...], count: int) -> None:
    reserved = state.reserved
    for name, amount in resources:
        reserved[name] = max(0.0, reserved.get(name, 0.0) + amount * count)
