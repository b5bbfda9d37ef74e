"""Placement: filter, then score, for a whole class of tasks at once.

Nodes that are *alike* (the same to every filter of a class) stand together in one heap, by the price of the next task.
Which groups would do for a class is found once; a task then goes to the cheapest of their first nodes, and only that
one node moves. Nothing here looks at a single task, and no more than once at a node that nothing happened to.

The heaps serve all classes, and are kept from pass to pass. An entry is good as long as it carries its node's stamp;
whatever changes a node gives it a new stamp and enters it again, and what is old is dropped when it comes to the top.

That needs a price that depends on the node alone. Strategies whose price depends on the class, on chance or on whose
turn it is have a heap per class, for one pass. Prices only rise while a pass places, so it is enough there to look
again when a node that somebody else has put work on comes to the top.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import fields
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import NodeDescription
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
from crawlfleet.scheduling.strategies import BUILT_IN, DEFAULT_STRATEGY, Candidates, Make, Strategy

Cursors = dict[Requirement, NodeId]
"""The node that took the last task of each class. The caller keeps it from pass to pass."""

OF_THE_NODE_ALONE = ("least_loaded", "least_tasks", "weighted")
"""Built-in strategies that price a node the same for every class."""

_OWN = ("name", "description", "ip_address", "port", "weight", "slots", "device_id", "lease_ms")
_FEW = 64
_ANYTHING = Requirement("")
_shared = attrgetter(*(field.name for field in fields(NodeDescription) if field.name not in _OWN))

_Entry = tuple[float, float, int, NodeState]
"""Price, chance (so that ties spread), the node's stamp when it was priced, node."""
_ClassEntry = tuple[float, float, NodeId, int, int, NodeState]
"""Price, chance, id, `held` when it was priced, tasks given by this class, node."""


def alike(state: NodeState) -> tuple[object, ...]:
    """What the class filters may look at: nodes that have it in common pass them together."""
    return (*_shared(state.node.description), state.cluster_project, *state.declared.items())


class _Group:
    """Nodes that are alike."""

    __slots__ = ("changed", "freed", "heaps", "nodes")

    def __init__(self) -> None:
        self.nodes: list[NodeState] = []
        self.heaps: dict[str, list[_Entry]] = {}
        """By strategy: the nodes with a free slot, cheapest first, and entries that are old."""
        self.changed: list[NodeState] = []
        """To be entered again before the heaps are asked."""
        self.freed = 0
        """How often one of them may have got room back."""


_NOWHERE: tuple[NodeState | None, _Group | None] = (None, None)


class _Plan:
    """What one class needs to be placed."""

    __slots__ = ("ask", "given", "groups", "has_none", "heap", "strategy")

    def __init__(self, ask: Ask, groups: list[_Group], strategy: str) -> None:
        self.ask = ask
        self.groups = groups
        self.strategy = strategy
        self.has_none = [-1] * len(groups)
        """For each group: its `freed` when no node of it had room for this class."""
        self.heap: list[_ClassEntry] | None = None
        """For one pass, of a strategy that prices for the class."""
        self.given: Strategy | None = None


class Placer:
    """Deducts from the states as it places; whoever else changes one tells it by `update`."""

    def __init__(
        self,
        nodes: Sequence[NodeState],
        *,
        rng: random.Random,
        default_strategy: str = DEFAULT_STRATEGY,
        cursors: Cursors | None = None,
        overcommit: float = 1.0,
        strategies: Mapping[str, Make] = BUILT_IN,
    ) -> None:
        self.cursors: Cursors = {} if cursors is None else cursors
        self.unknown_strategies: set[str] = set()
        """Names that were asked for and are none; the default served instead."""
        self.states = nodes
        self._rng = rng
        self._default = default_strategy
        self._overcommit = overcommit
        self._strategies = strategies
        self._stamp = 0
        self._groups: dict[tuple[object, ...], _Group] = {}
        self._places: dict[NodeId, tuple[NodeState, _Group | None]] = {state.node.id: (state, None) for state in nodes}
        """Each node with its group; those that no task may go to have none."""
        self._exhausted: set[NodeId] = set()
        """Would do, but their memory is used up: they take nothing until they are measured again."""
        self.reserved_for = {state.cluster_project for state in nodes if state.cluster_project is not None}
        self._prices: dict[str, Strategy] = {}
        """Strategies in use that price nodes alone."""
        self._plans: dict[tuple[Requirement, str], _Plan] = {}
        self._for_this_pass: list[_Plan] = []
        self._group_nodes()

    def place(self, requirement: Requirement, project: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks, in order; fewer when no more fit."""
        plan = self._plan(requirement, project)
        if plan.strategy in self._prices:
            return self._place_alike(plan, count)
        chosen = self._place_by_class(plan, count)
        if chosen:
            self.cursors[requirement] = chosen[-1].node.id
        return chosen

    def begin_pass(self) -> None:
        """What holds for one pass is over: turns, and prices that depend on the class."""
        for plan in self._for_this_pass:
            plan.heap = plan.given = None
        self._for_this_pass.clear()

    def update(self, node: NodeId, held: int, reserved: dict[str, float]) -> None:
        """What a node holds now, if it is not what was counted on here. The dictionary is the placer's from then on."""
        state, group = self._places.get(node, _NOWHERE)
        if state is not None and (held != state.held or reserved != state.reserved):
            state.held, state.reserved = held, reserved
            self._has_changed(state, group)

    def undo(self, requirement: Requirement, node_id: NodeId, count: int) -> None:
        """Give back what was deducted for tasks that were not assigned after all."""
        state, group = self._places[node_id]
        state.held = max(0, state.held - count)
        _reserve(state, requirement.resources, -count)
        self._has_changed(state, group)

    def room(self, requirement: Requirement, project: str) -> int:
        """How many tasks of the class fit now, if no other class takes the place."""
        plan = self._plan(requirement, project)
        return sum(tasks_fit(state, plan.ask) for state in self._able(plan))

    def is_hopeless(self, requirement: Requirement, project: str) -> bool:
        """No node would do, not even an empty one."""
        return not self._plan(requirement, project).groups

    # -- by groups of nodes

    def _place_alike(self, plan: _Plan, count: int) -> list[NodeState]:
        ask, groups, strategy = plan.ask, plan.groups, plan.strategy
        resources, cost = ask.requirement.resources, self._prices[strategy].cost
        heaps = [group.heaps[strategy] for group in groups]
        firsts = self._firsts(plan)
        passed: list[tuple[list[_Entry], _Entry]] = []
        chosen: list[NodeState] = []
        while firsts and len(chosen) < count:
            position = firsts[0][2]
            heap = heaps[position]
            entry = heap[0]
            state = entry[3]
            if resources and has_no_room(state, ask):
                passed.append((heap, heappop(heap)))
            else:
                chosen.append(state)
                state.held = held = state.held + 1
                state.stamp = self._stamp = stamp = self._stamp + 1
                if resources:
                    reserved = state.reserved
                    for name, amount in resources:
                        reserved[name] = reserved.get(name, 0.0) + amount
                if held < state.slots:
                    heapreplace(heap, (cost(state, 0), entry[1], stamp, state))
                else:
                    heappop(heap)
            first = _first(heap)
            if first is not None:
                heapreplace(firsts, (first[0], first[1], position))
            else:
                heappop(firsts)
                plan.has_none[position] = groups[position].freed
        for heap, entry in passed:
            heappush(heap, entry)
        if len(self._prices) > 1:
            self._tell_other_heaps(chosen)
        return chosen

    def _firsts(self, plan: _Plan) -> list[tuple[float, float, int]]:
        """The cheapest node of each group that may have room: its price, its chance, the position of the group."""
        firsts = []
        for position, group in enumerate(plan.groups):
            if plan.has_none[position] == group.freed:
                continue
            if group.changed:
                self._enter_changed(group)
            first = _first(group.heaps[plan.strategy])
            if first is not None:
                firsts.append((first[0], first[1], position))
            else:
                plan.has_none[position] = group.freed
        heapify(firsts)
        return firsts

    def _tell_other_heaps(self, chosen: Sequence[NodeState]) -> None:
        """Their entries there are old now."""
        for state in chosen:
            group = self._places[state.node.id][1]
            assert group is not None
            group.changed.append(state)

    def _has_changed(self, state: NodeState, group: _Group | None) -> None:
        if group is not None:
            state.stamp = self._stamp = self._stamp + 1
            group.changed.append(state)
            group.freed += 1
        if self._for_this_pass:
            # Prices may have fallen: the heaps of classes are old.
            self.begin_pass()

    def _enter_changed(self, group: _Group) -> None:
        """At the prices they have now."""
        changed = [state for state in dict.fromkeys(group.changed) if state.held < state.slots]
        group.changed.clear()
        if self._exhausted:
            changed = [state for state in changed if state.node.id not in self._exhausted]
        draw = self._rng.random
        for name, strategy in self._prices.items():
            heap, cost = group.heaps[name], strategy.cost
            for state in changed:
                heappush(heap, (cost(state, 0), draw(), state.stamp, state))
            if len(heap) > 2 * len(group.nodes) + _FEW:
                heap[:] = {entry[2]: entry for entry in heap if entry[2] == entry[3].stamp}.values()
                heapify(heap)

    def _group_nodes(self) -> None:
        anything = Ask(_ANYTHING, "", self._overcommit)
        for state in _passing(list(self.states), anything, NODE_FILTERS):
            key = alike(state)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group()
            group.nodes.append(state)
            # They declare the same: one dictionary for all of them stays in the processor's cache.
            state.declared = group.nodes[0].declared
            state.stamp = self._stamp = self._stamp + 1
            self._places[state.node.id] = (state, group)
            if is_memory_exhausted(state, anything):
                self._exhausted.add(state.node.id)

    def _price(self, name: str) -> None:
        """Every node, for a strategy that nobody has asked for so far."""
        rng, exhausted = self._rng, self._exhausted
        all_nodes = [state for group in self._groups.values() for state in group.nodes]
        strategy = self._prices[name] = self._strategies[name](Candidates(_ANYTHING, all_nodes, rng, 0))
        for group in self._groups.values():
            group.heaps[name] = heap = [
                (strategy.cost(state, 0), rng.random(), state.stamp, state)
                for state in group.nodes
                if state.held < state.slots and state.node.id not in exhausted
            ]
            heapify(heap)

    # -- by class

    def _place_by_class(self, plan: _Plan, count: int) -> list[NodeState]:
        if plan.heap is None or plan.given is None:
            self._price_for_class(plan)
        assert plan.heap is not None
        assert plan.given is not None
        heap, cost, ask = plan.heap, plan.given.cost, plan.ask
        resources = ask.requirement.resources
        chosen: list[NodeState] = []
        while heap and len(chosen) < count:
            _, chance, node, held, given, state = heap[0]
            if held == state.held:
                chosen.append(state)
                given += 1
                state.held = held = held + 1
                if resources:
                    _reserve(state, resources, 1)
                state.stamp = self._stamp = self._stamp + 1
            else:
                held = state.held
            if held < state.slots and not (resources and has_no_room(state, ask)):
                heapreplace(heap, (cost(state, given), chance, node, held, given, state))
            else:
                heappop(heap)
        self._tell_other_heaps(chosen)
        return chosen

    def _price_for_class(self, plan: _Plan) -> None:
        ask, rng = plan.ask, self._rng
        nodes = [state for state in self._able(plan) if state.held < state.slots and not has_no_room(state, ask)]
        last_node = self.cursors.get(ask.requirement, 0)
        make = self._strategies[plan.strategy]
        plan.given = given = make(Candidates(ask.requirement, nodes, rng, last_node))
        plan.heap = [(given.cost(state, 0), rng.random(), state.node.id, state.held, 0, state) for state in nodes]
        heapify(plan.heap)
        self._for_this_pass.append(plan)

    # -- what a class needs

    def _plan(self, requirement: Requirement, project: str) -> _Plan:
        # Projects differ to a node only where its cluster is reserved.
        key = (requirement, project if project in self.reserved_for else "")
        plan = self._plans.get(key)
        if plan is None:
            ask = Ask(requirement, project, self._overcommit)
            groups = [group for group in self._groups.values() if _passing(group.nodes[:1], ask, CLASS_FILTERS)]
            name = self._strategy_for(requirement.strategy)
            plan = self._plans[key] = _Plan(ask, groups, name)
            if name in OF_THE_NODE_ALONE and self._strategies[name] is BUILT_IN[name] and name not in self._prices:
                self._price(name)
        return plan

    def _able(self, plan: _Plan) -> list[NodeState]:
        exhausted = self._exhausted
        return [state for group in plan.groups for state in group.nodes if state.node.id not in exhausted]

    def _strategy_for(self, wanted: str | None) -> str:
        for name in (wanted, self._default):
            if name is not None:
                if name in self._strategies:
                    return name
                self.unknown_strategies.add(name)
        return DEFAULT_STRATEGY


def _first(heap: list[_Entry]) -> _Entry | None:
    """The cheapest, without the old entries before it."""
    while heap:
        entry = heap[0]
        if entry[2] == entry[3].stamp:
            return entry
        heappop(heap)
    return None


def _passing(nodes: list[NodeState], ask: Ask, filters: tuple[Filter, ...]) -> list[NodeState]:
    # Filter by filter rather than node by node: each one has only what the others left.
    for refuses in filters:
        nodes = [state for state in nodes if refuses(state, ask) is None]
    return nodes


def _reserve(state: NodeState, resources: tuple[tuple[str, float], ...], count: int) -> None:
    reserved = state.reserved
    for name, amount in resources:
        reserved[name] = max(0.0, reserved.get(name, 0.0) + amount * count)
