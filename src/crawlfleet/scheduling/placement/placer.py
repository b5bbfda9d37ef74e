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
from crawlfleet.model.limits import PRIORITY_MAX, PRIORITY_MIN
from crawlfleet.model.node import ANY_TASK
from crawlfleet.model.queue import Lane
from crawlfleet.model.requirement import Requirement, RequirementId
from crawlfleet.scheduling.placement.filters import (
    CLASS_FILTERS,
    Ask,
    NodeState,
    count_fitting,
    has_no_room,
    is_not_pulled,
    is_suitable,
)
from crawlfleet.scheduling.placement.node_classes import CLASS_INDEPENDENT, FeasibleClasses, NodeClassIndex
from crawlfleet.scheduling.placement.shared_machines import nodes_by_machine
from crawlfleet.scheduling.placement.strategies import (
    BUILT_IN,
    DEFAULT_STRATEGY,
    NOTHING_KNOWN,
    Candidates,
    Knowledge,
    Strategy,
    StrategyFactory,
)

Cursors = dict[Requirement, NodeId]
"""The node that got the last task of each class. The caller keeps it from pass to pass."""

ClassKey = RequirementId | tuple[RequirementId, str] | tuple[RequirementId, str, int]
"""Key of tasks that fit the same nodes: their requirement, with the project and the priority where nodes look at them.
"""

_PLACER_FILTERS = (*CLASS_FILTERS, is_not_pulled)

_ClassEntry = tuple[float, float, NodeId, int, int, NodeState]
"""Price, random number (so that ties spread), id, `held` when it was priced, tasks placed by this class, node."""


class _ClassHeap:
    """Heap of the nodes suitable for one class, by the prices they have for it; valid for one pass."""

    __slots__ = ("entries", "strategy")

    def __init__(self, candidates: Candidates, factory: StrategyFactory) -> None:
        self.strategy: Strategy = factory(candidates)
        draw = candidates.rng.random
        self.entries: list[_ClassEntry] = [
            (self.strategy.cost(state, 0), draw(), state.node.id, state.held, 0, state) for state in candidates.nodes
        ]
        heapify(self.entries)


class _ClassPlan:
    """What the placer keeps for one class of tasks: feasible node classes, strategy, heap."""

    __slots__ = ("feasible", "heap", "strategy")

    def __init__(self, feasible: FeasibleClasses, strategy: str) -> None:
        self.feasible = feasible
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
        strategies: Mapping[str, StrategyFactory] = BUILT_IN,
        knowledge: Knowledge = NOTHING_KNOWN,
    ) -> None:
        self.states = nodes
        self.overcommit = overcommit
        self.knowledge = knowledge
        """Evidence and regions that strategies use; the caller renews it before a pass."""
        self.cursors: Cursors = {} if cursors is None else cursors
        self.unknown_strategies: set[str] = set()
        """Requested names that are no strategy; the default served instead."""
        self.reserved_projects = {state.cluster_project for state in nodes if state.cluster_project is not None}
        """Projects that have a cluster of their own: for all others the nodes are the same."""
        self.has_priority_limits = any(state.pull_filter.max_priority < PRIORITY_MAX for state in nodes)
        """Whether some node pulls tasks up to a priority only: for tasks of one class the nodes then differ by it."""
        self._nodes = {state.node.id: state for state in nodes}
        self._machines = nodes_by_machine(nodes)
        self._rng = rng
        self._default = default_strategy
        self._strategies = strategies
        self._class_index = NodeClassIndex(nodes, rng, overcommit)
        self._plans: dict[tuple[Requirement, str, int], _ClassPlan] = {}
        self._plans_with_heap: list[_ClassPlan] = []

    def class_key(self, lane: Lane) -> ClassKey:
        """The key of what the nodes look at in tasks of the lane: lanes of one key fit the same nodes."""
        project = lane.project if lane.project in self.reserved_projects else ""
        if self.has_priority_limits:
            return lane.requirement_id, project, lane.priority
        return (lane.requirement_id, project) if project else lane.requirement_id

    @property
    def has_plain_classes(self) -> bool:
        """Whether the key of each class is that of its requirement alone."""
        return not self.reserved_projects and not self.has_priority_limits

    def place_tasks(
        self, requirement: Requirement, project: str, count: int, priority: int = PRIORITY_MIN
    ) -> list[NodeState]:
        """The nodes for the next `count` tasks, in order; fewer when no more fit."""
        plan = self._plan(requirement, project, priority)
        if requirement.node is None and plan.strategy in self._class_index.strategies:
            return self._class_index.place_tasks(plan.feasible, plan.strategy, count)
        chosen = self._place_by_class(plan, count)
        if chosen:
            self.cursors[requirement] = chosen[-1].node.id
            self._class_index.mark_changed(chosen)
        return chosen

    def begin_pass(self) -> None:
        """Drop what is valid for one pass only: turns, and prices that depend on the class."""
        for plan in self._plans_with_heap:
            plan.heap = None
        self._plans_with_heap.clear()

    def machine_nodes(self, node: NodeId) -> Sequence[NodeState]:
        """The nodes of its machine, itself among them, if the machine has more than one."""
        return self._machines.get(node, ())

    def release_tasks(self, ended: Iterable[tuple[NodeId, Requirement]]) -> None:
        """Give back what was deducted for tasks that ended, or were not assigned after all."""
        nodes, machines, mark_freed = self._nodes, self._machines, self._class_index.mark_freed
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
                for shared_state in machines[node]:
                    mark_freed(shared_state)
            else:
                mark_freed(state)
                if not state.held:
                    # Sums of fractions leave remainders.
                    reserved.clear()
        # Prices may have fallen: the heaps of classes are old.
        self.begin_pass()

    def set_held(self, node: NodeId, held: int, reserved: dict[str, float]) -> None:
        """Set what a node holds, whatever was counted here; and what is reserved on its machine, if that has several
        nodes. The dictionary belongs to the placer from then on."""
        state = self._nodes.get(node)
        if state is None:
            return
        state.held = held
        for shared_state in self.machine_nodes(node) or (state,):
            shared_state.reserved = reserved
            self._class_index.mark_freed(shared_state)
        self.begin_pass()

    def set_pull(self, node: NodeId, slots: int, *, is_pulling: bool) -> None:
        """Set the slots of a node that only pulls, as its pull was opened, filled or closed."""
        state = self._nodes.get(node)
        if state is None or (state.slots, state.is_pulling) == (slots, is_pulling):
            return
        state.slots, state.is_pulling = slots, is_pulling
        self._class_index.mark_freed(state)
        self.begin_pass()

    def find_state(self, node: NodeId) -> NodeState | None:
        return self._nodes.get(node)

    def place_elsewhere(
        self, node_id: NodeId, requirement: Requirement, project: str, priority: int = PRIORITY_MIN
    ) -> NodeState | None:
        """Place one more task on another node; None when no other has room. Looks at every node: for single tasks."""
        plan = self._plan(requirement, project, priority)
        ask = plan.feasible.ask
        usable = [
            state for state in self._usable_nodes(plan) if state.node.id != node_id and count_fitting(state, ask) > 0
        ]
        if not usable:
            return None
        strategy = (
            self._class_index.strategies.get(plan.strategy) or (plan.heap or self._price_for_class(plan)).strategy
        )
        state = min(usable, key=lambda state: (strategy.cost(state, 0), state.node.id))
        state.held += 1
        _reserve(state, requirement.resources)
        self._class_index.mark_changed([state])
        return state

    def count_fitting(self, requirement: Requirement, project: str) -> int:
        """How many tasks of the class fit now, if no other class is placed first."""
        plan = self._plan(requirement, project)
        return sum(count_fitting(state, plan.feasible.ask) for state in self._usable_nodes(plan))

    def has_no_feasible_node(self, requirement: Requirement, project: str, priority: int = PRIORITY_MIN) -> bool:
        """Whether no node would be suitable, not even an empty one."""
        feasible = self._plan(requirement, project, priority).feasible
        if feasible.node_classes:
            return False
        if requirement.node is not None:
            state = self._nodes.get(requirement.node)
            return state is None or not is_suitable(state, feasible.ask)
        # What the pulls of the moment leave out counts as full: the next pull may take it.
        return not any(state.pull_filter != ANY_TASK and is_suitable(state, feasible.ask) for state in self.states)

    def _place_by_class(self, plan: _ClassPlan, count: int) -> list[NodeState]:
        class_heap = plan.heap or self._price_for_class(plan)
        heap, cost, ask = class_heap.entries, class_heap.strategy.cost, plan.feasible.ask
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

    def _price_for_class(self, plan: _ClassPlan) -> _ClassHeap:
        ask = plan.feasible.ask
        nodes = [
            state for state in self._usable_nodes(plan) if state.held < state.slots and not has_no_room(state, ask)
        ]
        last = self.cursors.get(ask.requirement, 0)
        candidates = Candidates(ask.requirement, nodes, self._rng, last, self.knowledge)
        plan.heap = _ClassHeap(candidates, self._strategies[plan.strategy])
        self._plans_with_heap.append(plan)
        return plan.heap

    def _plan(self, requirement: Requirement, project: str, priority: int = PRIORITY_MIN) -> _ClassPlan:
        project_key = project if project in self.reserved_projects else ""
        key = (requirement, project_key, priority if self.has_priority_limits else PRIORITY_MIN)
        plan = self._plans.get(key)
        if plan is None:
            ask = Ask(requirement, project, self.overcommit, priority)
            name = self._strategy_for(requirement.strategy)
            if requirement.node is None:
                feasible = self._class_index.feasible_classes(ask, _PLACER_FILTERS)
            else:
                feasible = self._class_index.single_node(self._nodes.get(requirement.node), ask, _PLACER_FILTERS)
            plan = self._plans[key] = _ClassPlan(feasible, name)
            factory = self._strategies[name]
            if name in CLASS_INDEPENDENT and factory is BUILT_IN[name] and name not in self._class_index.strategies:
                self._class_index.add_strategy(name, factory)
        return plan

    def _usable_nodes(self, plan: _ClassPlan) -> list[NodeState]:
        exhausted, only = self._class_index.exhausted, plan.feasible.ask.requirement.node
        return [
            state
            for node_class in plan.feasible.node_classes
            for state in node_class.nodes
            if state.node.id not in exhausted and only in (None, state.node.id)
        ]

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
