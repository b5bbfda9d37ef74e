"""Strategies: which of the nodes that would do takes the next task.

A strategy prices the next task on a node; the cheapest node takes it, ties fall by chance. A price may only rise with
what the node holds: then one heap spreads any number of tasks of a class. Strategies never refuse a node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import Health
from crawlfleet.scheduling.filters import NodeState

DEFAULT_STRATEGY = "least_loaded"

# In shares of a full node: a busy processor counts like half its slots, and so does degraded health, so that such a
# node is used once the others are half full, and not only when nothing else is left.
_BUSY_CPU = 0.5
_DEGRADED = 0.5
_LEAST_WEIGHT = 1e-6


class Candidates(NamedTuple):
    """What a strategy may look at when it is set up for one class in one pass."""

    requirement: Requirement
    nodes: Sequence[NodeState]
    rng: random.Random
    last_node: NodeId
    """The node that took the last task of this class in an earlier pass; 0 for none."""


class Strategy(Protocol):
    def cost(self, state: NodeState, given: int) -> float:
        """Of the next task on this node, which got `given` tasks of the class in this pass already."""
        ...


Make = Callable[[Candidates], Strategy]


class LeastLoaded:
    """The smallest share in use after the task: of slots, or of whatever resource is scarcest on the node."""

    def __init__(self, candidates: Candidates) -> None:
        self._surcharge = {state: _surcharge(state) for state in candidates.nodes}

    def cost(self, state: NodeState, given: int) -> float:
        load = (state.held + 1) / state.slots
        if state.reserved:
            load = max(load, _scarcest(state))
        return load + self._surcharge[state]


class LeastTasks:
    def __init__(self, candidates: Candidates) -> None:
        pass

    def cost(self, state: NodeState, given: int) -> float:
        return state.held


class RoundRobin:
    """One after the other by id, each class with a turn of its own, from the node after the last."""

    def __init__(self, candidates: Candidates) -> None:
        ids = sorted(state.node.id for state in candidates.nodes)
        self._turns = len(ids)
        ring = [node for node in ids if node > candidates.last_node]
        ring += [node for node in ids if node <= candidates.last_node]
        self._place = {node: place for place, node in enumerate(ring)}

    def cost(self, state: NodeState, given: int) -> float:
        return self._place[state.node.id] + self._turns * given


class Weighted:
    """Tasks in proportion to the nodes' weights."""

    def __init__(self, candidates: Candidates) -> None:
        pass

    def cost(self, state: NodeState, given: int) -> float:
        return (state.held + 1) / max(_LEAST_WEIGHT, state.node.description.weight)


class Random:
    def __init__(self, candidates: Candidates) -> None:
        self._rng = candidates.rng

    def cost(self, state: NodeState, given: int) -> float:
        return self._rng.random()


class Largest:
    """The most CPU and memory left. A task that reserved nothing is taken to use its slot's share of the node."""

    def __init__(self, candidates: Candidates) -> None:
        self._most = {
            name: max((state.declared.get(name, 0.0) for state in candidates.nodes), default=0.0)
            for name in ("cpu", "memory_mb")
        }

    def cost(self, state: NodeState, given: int) -> float:
        measured = state.measurement
        cpu = self._left(state, "cpu", measured.cpu if measured else 0.0)
        return -cpu - self._left(state, "memory_mb", measured.memory if measured else 0.0)

    def _left(self, state: NodeState, name: str, measured: float) -> float:
        """As a share of the largest node, so that cores and megabytes weigh the same."""
        declared = state.declared.get(name, 0.0)
        if not declared:
            return 0.0
        used = max(state.held / state.slots, state.reserved.get(name, 0.0) / declared, measured)
        return declared * (1.0 - used) / self._most[name]


BUILT_IN: Mapping[str, Make] = {
    "least_loaded": LeastLoaded,
    "least_tasks": LeastTasks,
    "round_robin": RoundRobin,
    "weighted": Weighted,
    "random": Random,
    "largest": Largest,
}


def _scarcest(state: NodeState) -> float:
    """The largest share reserved of any resource; one that was never declared is all gone."""
    most = 0.0
    for name, amount in state.reserved.items():
        declared = state.declared.get(name, 0.0)
        if amount > most * declared:
            most = amount / declared if declared else 1.0
    return most


def _surcharge(state: NodeState) -> float:
    # The bounds also catch a figure that is no number: it would break the order of the heap.
    cpu = min(1.0, max(0.0, state.measurement.cpu)) if state.measurement else 0.0
    return _BUSY_CPU * cpu + (_DEGRADED if state.node.health is Health.DEGRADED else 0.0)
