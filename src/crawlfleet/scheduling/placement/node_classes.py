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
from crawlfleet.scheduling.placement.price_heap import SEAT_MASK, Entry, PriceHeaps
from crawlfleet.scheduling.placement.strategies import Candidates, Strategy, StrategyFactory

CLASS_INDEPENDENT = ("least_loaded", "least_tasks", "weighted")
"""Built-in strategies that price a node the same for every class."""

_PER_NODE_FIELDS = (
    "name",
    "description",
    "ip_address",
    "port",
    "weight",
    "slots",
    "device_id",
    "lease_ms",
    "machine",
    "egress",
    "interval_s",
    "dns_name",
)
_ANYTHING = Requirement("")
_class_fields = attrgetter(*(field.name for field in fields(NodeDescription) if field.name not in _PER_NODE_FIELDS))


def class_key(state: NodeState) -> tuple[object, ...]:
    """The values that class filters may look at: nodes that have them in common pass the filters together."""
    return (*_class_fields(state.node.description), state.cluster_project, state.pull_filter, *state.declared.items())


class NodeClass:
    """A node class: nodes that every class filter treats the same."""

    __slots__ = ("changed", "freed", "nodes", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.nodes: list[NodeState] = []
        self.changed: dict[NodeState, None] = {}
        """Nodes to be pushed again before the heaps are used."""
        self.freed = 0
        """Counter of the times one of its nodes may have got room back."""


class FeasibleClasses:
    """The node classes that are feasible for one class of tasks."""

    __slots__ = ("ask", "full_at", "node_classes")

    def __init__(self, ask: Ask, node_classes: list[NodeClass]) -> None:
        self.ask = ask
        self.node_classes = node_classes
        self.full_at: dict[NodeClass, int] = {}
        """The `freed` of each node class when none of its nodes had room for this class of tasks."""


class NodeClassIndex:
    """The node classes of all nodes, with the price heaps of each strategy in use."""

    def __init__(self, nodes: Sequence[NodeState], rng: random.Random, overcommit: float) -> None:
        self.strategies: dict[str, Strategy] = {}
        """Strategies in use, by name."""
        self.exhausted: set[NodeId] = set()
        """Suitable nodes whose memory is used up: they get nothing until they are measured again."""
        self._rng = rng
        self._classes: dict[tuple[object, ...], NodeClass] = {}
        self._seated: list[NodeState] = []
        self._class_by_seat: list[NodeClass] = []
        """Node class of each node, by seat."""
        self._heaps_by_strategy: dict[str, PriceHeaps] = {}
        self._build_classes(nodes, Ask(_ANYTHING, "", overcommit))

    def feasible_classes(self, ask: Ask, filters: tuple[Filter, ...]) -> FeasibleClasses:
        return FeasibleClasses(
            ask,
            [node_class for node_class in self._classes.values() if filter_nodes(node_class.nodes[:1], ask, filters)],
        )

    def single_node(self, state: NodeState | None, ask: Ask, filters: tuple[Filter, ...]) -> FeasibleClasses:
        """The node class of one node, for tasks that only that node may run; none when it does not pass."""
        if state is None or state.seat < 0 or not filter_nodes([state], ask, filters):
            return FeasibleClasses(ask, [])
        return FeasibleClasses(ask, [self._class_by_seat[state.seat]])

    def add_strategy(self, name: str, factory: StrategyFactory) -> None:
        """Price every node for a strategy that was not in use so far."""
        strategy = self.strategies[name] = factory(Candidates(_ANYTHING, self._seated, self._rng, 0))
        heaps = self._heaps_by_strategy[name] = PriceHeaps(
            strategy.cost, len(self._classes), len(self._seated), self._rng
        )
        for node_class in self._classes.values():
            heaps.push(
                node_class.number, (state for state in node_class.nodes if state.seat >= 0), len(node_class.nodes)
            )

    def place_tasks(self, feasible: FeasibleClasses, strategy: str, count: int) -> list[NodeState]:
        """The nodes for the next `count` tasks of the class, in order; fewer when no more fit."""
        ask, price_heaps, seated, class_by_seat = (
            feasible.ask,
            self._heaps_by_strategy[strategy],
            self._seated,
            self._class_by_seat,
        )
        resources, heaps, newest = ask.requirement.resources, price_heaps.heaps, price_heaps.newest
        cheapest = self._cheapest_entries(feasible, price_heaps)
        skipped: list[tuple[list[Entry], Entry]] = []
        chosen: list[NodeState] = []
        while cheapest and len(chosen) < count:
            entry = cheapest[0]
            seat = entry & SEAT_MASK
            state, node_class = seated[seat], class_by_seat[seat]
            heap = heaps[node_class.number]
            if state.is_shared and (repriced := price_heaps.reprice(state, entry)) > entry:
                # A node of the same machine has used some of what both share: while tasks are placed prices only rise.
                heapreplace(heap, repriced)
            elif resources and has_no_room(state, ask):
                skipped.append((heap, heappop(heap)))
            else:
                chosen.append(state)
                state.held = held = state.held + 1
                if resources:
                    reserved = state.reserved
                    for name, amount in resources:
                        reserved[name] = reserved.get(name, 0.0) + amount
                if held < state.slots:
                    heapreplace(heap, price_heaps.reprice(state, entry))
                else:
                    price_heaps.remove(state)
                    heappop(heap)
            first = (
                heap[0] if heap and newest[heap[0] & SEAT_MASK] == heap[0] else price_heaps.cheapest(node_class.number)
            )
            if first is not None:
                heapreplace(cheapest, first)
            else:
                heappop(cheapest)
                feasible.full_at[node_class] = node_class.freed
        for heap, entry in skipped:
            heappush(heap, entry)
        if len(self.strategies) > 1:
            self.mark_changed(chosen)
        return chosen

    def _cheapest_entries(self, feasible: FeasibleClasses, heaps: PriceHeaps) -> list[Entry]:
        """Heap of the cheapest entry of each node class that may have room."""
        entries = []
        for node_class in feasible.node_classes:
            if feasible.full_at.get(node_class) == node_class.freed:
                continue
            if node_class.changed:
                self._push_changed(node_class)
            first = heaps.cheapest(node_class.number)
            if first is not None:
                entries.append(first)
            else:
                feasible.full_at[node_class] = node_class.freed
        heapify(entries)
        return entries

    def mark_changed(self, chosen: Iterable[NodeState]) -> None:
        """Note that tasks were placed on these nodes by another strategy: their entries are old."""
        for state in chosen:
            self._class_by_seat[state.seat].changed[state] = None

    def mark_freed(self, state: NodeState) -> None:
        """Note that the node may have room again."""
        if state.seat >= 0:
            node_class = self._class_by_seat[state.seat]
            node_class.changed[state] = None
            node_class.freed += 1

    def _push_changed(self, node_class: NodeClass) -> None:
        for heaps in self._heaps_by_strategy.values():
            heaps.push(node_class.number, node_class.changed, len(node_class.nodes))
        node_class.changed.clear()

    def _build_classes(self, nodes: Sequence[NodeState], anything: Ask) -> None:
        for state in nodes:
            state.seat = -1
        for state in filter_nodes(list(nodes), anything, NODE_FILTERS):
            key = class_key(state)
            node_class = self._classes.get(key)
            if node_class is None:
                node_class = self._classes[key] = NodeClass(len(self._classes))
            node_class.nodes.append(state)
            # They declare the same: one dictionary for all of them stays in the processor's cache.
            state.declared = node_class.nodes[0].declared
            if is_memory_exhausted(state, anything):
                self.exhausted.add(state.node.id)
            else:
                state.seat = len(self._seated)
                self._seated.append(state)
                self._class_by_seat.append(node_class)


def filter_nodes(nodes: list[NodeState], ask: Ask, filters: tuple[Filter, ...]) -> list[NodeState]:
    """The nodes that pass all filters."""
    # Filter by filter rather than node by node: each one sees only what the others left.
    for refuses in filters:
        nodes = [state for state in nodes if refuses(state, ask) is None]
    return nodes
