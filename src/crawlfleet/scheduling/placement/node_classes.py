"""Node classes: nodes that are alike, with one order by price for all classes of tasks, kept from pass to pass.

Which node classes are feasible for a class of tasks is computed once; a task then goes to the cheapest of their first
nodes, and only that one node moves. So no node without a change is looked at twice: whatever changes a node has it
pushed again before its node class is used.

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
from crawlfleet.scheduling.placement.filters import (
    NODE_FILTERS,
    Ask,
    Filter,
    NodeState,
    has_no_room,
    is_memory_exhausted,
)
from crawlfleet.scheduling.placement.price_heap import SEAT, ByPrice, Entry
from crawlfleet.scheduling.placement.strategies import Candidates, Make, Strategy

OF_THE_NODE_ALONE = ("least_loaded", "least_tasks", "weighted")
"""Built-in strategies that price a node the same for every class."""

_OWN = ("name", "description", "ip_address", "port", "weight", "slots", "device_id", "lease_ms", "machine", "egress")
_ANYTHING = Requirement("")
_shared = attrgetter(*(field.name for field in fields(NodeDescription) if field.name not in _OWN))


def alike(state: NodeState) -> tuple[object, ...]:
    """The values that class filters may look at: nodes that have them in common pass the filters together."""
    return (*_shared(state.node.description), state.cluster_project, *state.declared.items())


class Group:
    """A node class: nodes that every class filter treats the same."""

    __slots__ = ("changed", "freed", "nodes", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: list[NodeState] = []
        self.changed: dict[NodeState, None] = {}
        """Nodes to be pushed again before the heaps are used."""
        self.freed = 0
        """Counter of the times one of its nodes may have got room back."""


class ClassGroups:
    """The node classes that are feasible for one class of tasks."""

    __slots__ = ("ask", "groups", "has_none")

    def __init__(self, ask: Ask, groups: list[Group]) -> None:
        self.ask = ask
        self.groups = groups
        self.has_none: dict[Group, int] = {}
        """The `freed` of each node class when none of its nodes had room for this class of tasks."""


class NodeGroups:
    def __init__(self, nodes: Sequence[NodeState], rng: random.Random, overcommit: float) -> None:
        self.prices: dict[str, Strategy] = {}
        """Strategies in use, by name."""
        self.exhausted: set[NodeId] = set()
        """Suitable nodes whose memory is used up: they get nothing until they are measured again."""
        self._rng = rng
        self._groups: dict[tuple[object, ...], Group] = {}
        self._seated: list[NodeState] = []
        self._group_at: list[Group] = []
        """Node class of each node, by seat."""
        self._orders: dict[str, ByPrice] = {}
        self._group(nodes, Ask(_ANYTHING, "", overcommit))

    def of_class(self, ask: Ask, filters: tuple[Filter, ...]) -> ClassGroups:
        return ClassGroups(ask, [group for group in self._groups.values() if passing(group.nodes[:1], ask, filters)])

    def price(self, name: str, make: Make) -> None:
        """Price every node for a strategy that was not in use so far."""
        strategy = self.prices[name] = make(Candidates(_ANYTHING, self._seated, self._rng, 0))
        order = self._orders[name] = ByPrice(strategy.cost, len(self._groups), len(self._seated), self._rng)
        for group in self._groups.values():
            order.enter(group.number, (state for state in group.nodes if state.seat >= 0), len(group.nodes))

    def place(self, plan: ClassGroups, strategy: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks of the class, in order; fewer when no more fit."""
        ask, order, seated, group_at = plan.ask, self._orders[strategy], self._seated, self._group_at
        resources, heaps, newest = ask.requirement.resources, order.heaps, order.newest
        firsts = self._firsts(plan, order)
        passed: list[tuple[list[Entry], Entry]] = []
        chosen: list[NodeState] = []
        while firsts and len(chosen) < count:
            entry = firsts[0]
            seat = entry & SEAT
            state, group = seated[seat], group_at[seat]
            heap = heaps[group.number]
            if state.is_shared and (dearer := order.rise(state, entry)) > entry:
                # A node of the same machine has used some of what both share: while tasks are placed prices only rise.
                heapreplace(heap, dearer)
            elif resources and has_no_room(state, ask):
                passed.append((heap, heappop(heap)))
            else:
                chosen.append(state)
                state.held = held = state.held + 1
                if resources:
                    reserved = state.reserved
                    for name, amount in resources:
                        reserved[name] = reserved.get(name, 0.0) + amount
                if held < state.slots:
                    heapreplace(heap, order.rise(state, entry))
                else:
                    order.leave(state)
                    heappop(heap)
            first = heap[0] if heap and newest[heap[0] & SEAT] == heap[0] else order.first(group.number)
            if first is not None:
                heapreplace(firsts, first)
            else:
                heappop(firsts)
                plan.has_none[group] = group.freed
        for heap, entry in passed:
            heappush(heap, entry)
        if len(self.prices) > 1:
            self.took(chosen)
        return chosen

    def _firsts(self, plan: ClassGroups, order: ByPrice) -> list[Entry]:
        """Heap of the cheapest entry of each node class that may have room."""
        firsts = []
        for group in plan.groups:
            if plan.has_none.get(group) == group.freed:
                continue
            if group.changed:
                self._enter_changed(group)
            first = order.first(group.number)
            if first is not None:
                firsts.append(first)
            else:
                plan.has_none[group] = group.freed
        heapify(firsts)
        return firsts

    def took(self, chosen: Iterable[NodeState]) -> None:
        """Note that tasks were placed on these nodes by another strategy: their entries are old."""
        for state in chosen:
            self._group_at[state.seat].changed[state] = None

    def gave_back(self, state: NodeState) -> None:
        """Note that the node may have room again."""
        if state.seat >= 0:
            group = self._group_at[state.seat]
            group.changed[state] = None
            group.freed += 1

    def _enter_changed(self, group: Group) -> None:
        for order in self._orders.values():
            order.enter(group.number, group.changed, len(group.nodes))
        group.changed.clear()

    def _group(self, nodes: Sequence[NodeState], anything: Ask) -> None:
        for state in nodes:
            state.seat = -1
        for state in passing(list(nodes), anything, NODE_FILTERS):
            key = alike(state)
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = Group(len(self._groups))
            group.nodes.append(state)
            # They declare the same: one dictionary for all of them stays in the processor's cache.
            state.declared = group.nodes[0].declared
            if is_memory_exhausted(state, anything):
                self.exhausted.add(state.node.id)
            else:
                state.seat = len(self._seated)
                self._seated.append(state)
                self._group_at.append(group)


def passing(nodes: list[NodeState], ask: Ask, filters: tuple[Filter, ...]) -> list[NodeState]:
    """The nodes that pass all filters."""
    # Filter by filter rather than node by node: each one sees only what the others left.
    for refuses in filters:
        nodes = [state for state in nodes if refuses(state, ask) is None]
    return nodes
