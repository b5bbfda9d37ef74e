"""Nodes that are alike, together: one heap by price for all classes of tasks, kept from pass to pass.

Which groups would do for a class is found once; a task then goes to the cheapest of their first nodes, and only that
one node moves. So nothing looks more than once at a node that nothing happened to.

An entry of a heap is good as long as it carries its node's stamp. Whatever changes a node gives it a new stamp, and it
is entered again before the heap is asked; what is old is dropped when it comes to the top.

All that needs a price that depends on the node alone, as that of the strategies here does; or on what is reserved on
its machine: nodes of one machine are priced again when they come to the top.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import fields
from heapq import heapify, heappop, heappush, heapreplace
from operator import attrgetter

from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.filters import NODE_FILTERS, Ask, Filter, NodeState, has_no_room, is_memory_exhausted
from crawlfleet.scheduling.strategies import Candidates, Make, Strategy

OF_THE_NODE_ALONE = ("least_loaded", "least_tasks", "weighted")
"""Built-in strategies that price a node the same for every class."""

_OWN = ("name", "description", "ip_address", "port", "weight", "slots", "device_id", "lease_ms", "machine", "egress")
_FEW = 64
_ANYTHING = Requirement("")
_shared = attrgetter(*(field.name for field in fields(NodeDescription) if field.name not in _OWN))

_Entry = tuple[float, float, int, NodeState]
"""Price, chance (so that ties spread), the node's stamp when it was priced, node."""


def alike(state: NodeState) -> tuple[object, ...]:
    """What the class filters may look at: nodes that have it in common pass them together."""
    return (*_shared(state.node.description), state.cluster_project, *state.declared.items())


class Group:
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


class ClassGroups:
    """The groups that would do for one class."""

    __slots__ = ("ask", "groups", "has_none")

    def __init__(self, ask: Ask, groups: list[Group]) -> None:
        self.ask = ask
        self.groups = groups
        self.has_none = [-1] * len(groups)
        """For each group: its `freed` when no node of it had room for this class."""


class NodeGroups:
    def __init__(self, nodes: Sequence[NodeState], rng: random.Random, overcommit: float) -> None:
        self.prices: dict[str, Strategy] = {}
        """Strategies in use."""
        self.exhausted: set[NodeId] = set()
        """Would do, but their memory is used up: they take nothing until they are measured again."""
        self._rng = rng
        self._stamp = 0
        self._groups: dict[tuple[object, ...], Group] = {}
        self._group_of: dict[NodeId, Group] = {}
        self._group(nodes, Ask(_ANYTHING, "", overcommit))

    def of_class(self, ask: Ask, filters: tuple[Filter, ...]) -> ClassGroups:
        return ClassGroups(ask, [group for group in self._groups.values() if passing(group.nodes[:1], ask, filters)])

    def price(self, name: str, make: Make) -> None:
        """Every node, for a strategy that nobody has asked for so far."""
        rng, exhausted = self._rng, self.exhausted
        nodes = [state for group in self._groups.values() for state in group.nodes]
        strategy = self.prices[name] = make(Candidates(_ANYTHING, nodes, rng, 0))
        for group in self._groups.values():
            group.heaps[name] = heap = [
                (strategy.cost(state, 0), rng.random(), state.stamp, state)
                for state in group.nodes
                if state.held < state.slots and state.node.id not in exhausted
            ]
            heapify(heap)

    def place(self, plan: ClassGroups, strategy: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks of the class, in order; fewer when no more fit."""
        ask, groups = plan.ask, plan.groups
        resources, cost = ask.requirement.resources, self.prices[strategy].cost
        heaps = [group.heaps[strategy] for group in groups]
        firsts = self._firsts(plan, strategy)
        passed: list[tuple[list[_Entry], _Entry]] = []
        chosen: list[NodeState] = []
        while firsts and len(chosen) < count:
            position = firsts[0][2]
            heap = heaps[position]
            entry = heap[0]
            state = entry[3]
            if state.is_shared and (price := cost(state, 0)) > entry[0]:
                # A node of the same machine has taken from what both have: while tasks are placed prices only rise.
                heapreplace(heap, (price, entry[1], entry[2], state))
            elif resources and has_no_room(state, ask):
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
        if len(self.prices) > 1:
            self.took(chosen)
        return chosen

    def _firsts(self, plan: ClassGroups, strategy: str) -> list[tuple[float, float, int]]:
        """The cheapest node of each group that may have room: its price, its chance, the position of the group."""
        firsts = []
        for position, group in enumerate(plan.groups):
            if plan.has_none[position] == group.freed:
                continue
            if group.changed:
                self._enter_changed(group)
            first = _first(group.heaps[strategy])
            if first is not None:
                firsts.append((first[0], first[1], position))
            else:
                plan.has_none[position] = group.freed
        heapify(firsts)
        return firsts

    def took(self, chosen: Iterable[NodeState]) -> None:
        """Somebody else put a task on each of these: their entries are old."""
        for state in chosen:
            state.stamp = self._stamp = self._stamp + 1
            self._group_of[state.node.id].changed.append(state)

    def gave_back(self, state: NodeState) -> None:
        """It may have room again."""
        group = self._group_of.get(state.node.id)
        if group is not None:
            state.stamp = self._stamp = self._stamp + 1
            group.changed.append(state)
            group.freed += 1

    def _enter_changed(self, group: Group) -> None:
        """At the prices they have now."""
        changed = [state for state in dict.fromkeys(group.changed) if state.held < state.slots]
        group.changed.clear()
        if self.exhausted:
            changed = [state for state in changed if state.node.id not in self.exhausted]
        draw = self._rng.random
        for name, strategy in self.prices.items():
            heap, cost = group.heaps[name], strategy.cost
            for state in changed:
                heappush(heap, (cost(state, 0), draw(), state.stamp, state))
            if len(heap) > 2 * len(group.nodes) + _FEW:
                heap[:] = {entry[2]: entry for entry in heap if entry[2] == entry[3].stamp}.values()
                heapify(heap)

    def _group(self, nodes: Sequence[NodeState], anything: Ask) -> None:
        for state in passing(list(nodes), anything, NODE_FILTERS):
            key = alike(state)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group()
            group.nodes.append(state)
            # They declare the same: one dictionary for all of them stays in the processor's cache.
            state.declared = group.nodes[0].declared
            state.stamp = self._stamp = self._stamp + 1
            self._group_of[state.node.id] = group
            if is_memory_exhausted(state, anything):
                self.exhausted.add(state.node.id)


def passing(nodes: list[NodeState], ask: Ask, filters: tuple[Filter, ...]) -> list[NodeState]:
    # Filter by filter rather than node by node: each one has only what the others left.
    for refuses in filters:
        nodes = [state for state in nodes if refuses(state, ask) is None]
    return nodes


def _first(heap: list[_Entry]) -> _Entry | None:
    """The cheapest, without the old entries before it."""
    while heap:
        entry = heap[0]
        if entry[2] == entry[3].stamp:
            return entry
        heappop(heap)
    return None
