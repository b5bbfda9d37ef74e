"""Placement: filter, then score, for a whole class of tasks at once. No function here looks at a single task.

A placer serves many passes. Where the price of a task depends on the node alone, all classes share the heaps of
`node_classes`. Strategies whose price depends on the class, on chance or on whose turn it is have a heap per class, for
one pass. Prices only rise while a pass places, so it is enough there to price a node again when it comes to the top and
another class has placed work on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from crawlfleet.model.ids import NodeId
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import CLASS_FILTERS, Ask, NodeState, has_no_room, tasks_fit
from crawlfleet.scheduling.placement.node_classes import OF_THE_NODE_ALONE, ClassGroups, NodeGroups
from crawlfleet.scheduling.placement.shared_machines import machines_of
from crawlfleet.scheduling.placement.strategies import (
    BUILT_IN,
    DEFAULT_STRATEGY,
    NOTHING_KNOWN,
    Candidates,
    Knowledge,
    Make,
    Strategy,
)

Cursors = dict[Requirement, NodeId]
"""The node that got the last task of each class. The caller keeps it from pass to pass."""

_ClassEntry = tuple[float, float, NodeId, int, int, NodeState]
"""Price, random number (so that ties spread), id, `held` when it was priced, tasks placed by this class, node."""


class _ClassHeap:
    """Heap of the nodes suitable for one class, by the prices they have for it; valid for one pass."""

    __slots__ = ("entries", "strategy")

    def __init__(self, candidates: Candidates, make: Make) -> None:
        self.strategy: Strategy = make(candidates)
        draw = candidates.rng.random
        self.entries: list[_ClassEntry] = [
            (self.strategy.cost(state, 0), draw(), state.node.id, state.held, 0, state) for state in candidates.nodes
        ]
        heapify(self.entries)


class _Plan:
    """What the placer keeps for one class of tasks: feasible node classes, strategy, heap."""

    __slots__ = ("groups", "heap", "strategy")

    def __init__(self, groups: ClassGroups, strategy: str) -> None:
        self.groups = groups
        self.strategy = strategy
        self.heap: _ClassHeap | None = None


class Placer:
    """Places tasks on node states, and deducts from them; other changes of a state come in by `set_held`."""

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
        self.states = nodes
        self.overcommit = overcommit
        self.knowledge = knowledge
        """Evidence and regions that strategies use; the caller renews it before a pass."""
        self.cursors: Cursors = {} if cursors is None else cursors
        self.unknown_strategies: set[str] = set()
        """Requested names that are no strategy; the default served instead."""
        self.reserved_for = {state.cluster_project for state in nodes if state.cluster_project is not None}
        """Projects that have a cluster of their own: for all others the nodes are the same."""
        self._nodes = {state.node.id: state for state in nodes}
        self._machines = machines_of(nodes)
        self._rng = rng
        self._default = default_strategy
        self._strategies = strategies
        self._groups = NodeGroups(nodes, rng, overcommit)
        self._plans: dict[tuple[Requirement, str], _Plan] = {}
        self._with_heap: list[_Plan] = []

    def place(self, requirement: Requirement, project: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks, in order; fewer when no more fit."""
        plan = self._plan(requirement, project)
        if plan.strategy in self._groups.prices:
            return self._groups.place(plan.groups, plan.strategy, count)
        chosen = self._place_by_class(plan, count)
        if chosen:
            self.cursors[requirement] = chosen[-1].node.id
            self._groups.took(chosen)
        return chosen

    def begin_pass(self) -> None:
        """Drop what is valid for one pass only: turns, and prices that depend on the class."""
        for plan in self._with_heap:
            plan.heap = None
        self._with_heap.clear()

    def sharing(self, node: NodeId) -> Sequence[NodeState]:
        """The nodes of its machine, itself among them, if the machine has more than one."""
        return self._machines.get(node, ())

    def give_back(self, ended: Iterable[tuple[NodeId, Requirement]]) -> None:
        """Give back what was deducted for tasks that ended, or were not assigned after all."""
        nodes, machines, gave_back = self._nodes, self._machines, self._groups.gave_back
        for node, requirement in ended:
            state = nodes.get(node)
            if state is None or state.is_on_trial:
                # The next task of a node on trial is due after a while, not when its last one has ended.
                continue
            if state.held:
                state.held -= 1
            reserved = state.reserved
            for name, amount in requirement.resources:
                left = reserved.get(name, 0.0) - amount
                reserved[name] = left if left > 0.0 else 0.0
            if state.is_shared:
                for each in machines[node]:
                    gave_back(each)
            else:
                gave_back(state)
                if not state.held:
                    # Sums of fractions leave remainders.
                    reserved.clear()
        # Prices may have fallen: the heaps of classes are old.
        self.begin_pass()

    def correct(self, node: NodeId, held: int, reserved: dict[str, float]) -> None:
        """Set what a node holds, whatever was counted here; and what is reserved on its machine, if that has several
        nodes. The dictionary belongs to the placer from then on."""
        state = self._nodes.get(node)
        if state is None:
            return
        state.held = held
        for each in self.sharing(node) or (state,):
            each.reserved = reserved
            self._groups.gave_back(each)
        self.begin_pass()

    def other_than(self, node_id: NodeId, requirement: Requirement, project: str) -> NodeState | None:
        """Place one more task on another node; None when no other has room. Looks at every node: for single tasks."""
        plan = self._plan(requirement, project)
        ask = plan.groups.ask
        found = [state for state in self._able(plan) if state.node.id != node_id and tasks_fit(state, ask) > 0]
        if not found:
            return None
        prices = self._groups.prices.get(plan.strategy) or (plan.heap or self._price_for_class(plan)).strategy
        state = min(found, key=lambda state: (prices.cost(state, 0), state.node.id))
        state.held += 1
        _reserve(state, requirement.resources)
        self._groups.took([state])
        return state

    def room(self, requirement: Requirement, project: str) -> int:
        """How many tasks of the class fit now, if no other class is placed first."""
        plan = self._plan(requirement, project)
        return sum(tasks_fit(state, plan.groups.ask) for state in self._able(plan))

    def is_hopeless(self, requirement: Requirement, project: str) -> bool:
        """Whether no node would be suitable, not even an empty one."""
        return not self._plan(requirement, project).groups.groups

    def _place_by_class(self, plan: _Plan, count: int) -> list[NodeState]:
        by_class = plan.heap or self._price_for_class(plan)
        heap, cost, ask = by_class.entries, by_class.strategy.cost, plan.groups.ask
        resources = ask.requirement.resources
        chosen: list[NodeState] = []
        while heap and len(chosen) < count:
            _, chance, node, held, given, state = heap[0]
            # A node of the same machine may have taken the room meanwhile.
            if held == state.held and not (state.is_shared and has_no_room(state, ask)):
                chosen.append(state)
                given += 1
                state.held = held = held + 1
                if resources:
                    _reserve(state, resources)
            else:
                held = state.held
            if held < state.slots and not (resources and has_no_room(state, ask)):
                heapreplace(heap, (cost(state, given), chance, node, held, given, state))
            else:
                heappop(heap)
        return chosen

    def _price_for_class(self, plan: _Plan) -> _ClassHeap:
        ask = plan.groups.ask
        nodes = [state for state in self._able(plan) if state.held < state.slots and not has_no_room(state, ask)]
        last = self.cursors.get(ask.requirement, 0)
        candidates = Candidates(ask.requirement, nodes, self._rng, last, self.knowledge)
        plan.heap = _ClassHeap(candidates, self._strategies[plan.strategy])
        self._with_heap.append(plan)
        return plan.heap

    def _plan(self, requirement: Requirement, project: str) -> _Plan:
        key = (requirement, project if project in self.reserved_for else "")
        plan = self._plans.get(key)
        if plan is None:
            ask = Ask(requirement, project, self.overcommit)
            name = self._strategy_for(requirement.strategy)
            plan = self._plans[key] = _Plan(self._groups.of_class(ask, CLASS_FILTERS), name)
            make = self._strategies[name]
            if name in OF_THE_NODE_ALONE and make is BUILT_IN[name] and name not in self._groups.prices:
                self._groups.price(name, make)
        return plan

    def _able(self, plan: _Plan) -> list[NodeState]:
        exhausted = self._groups.exhausted
        return [state for group in plan.groups.groups for state in group.nodes if state.node.id not in exhausted]

    def _strategy_for(self, wanted: str | None) -> str:
        for name in (wanted, self._default):
            if name is not None:
                if name in self._strategies:
                    return name
                self.unknown_strategies.add(name)
        return DEFAULT_STRATEGY


def _reserve(state: NodeState, resources: tuple[tuple[str, float], ...]) -> None:
    reserved = state.reserved
    for name, amount in resources:
        reserved[name] = reserved.get(name, 0.0) + amount
