"""Strategies that place by the load of nodes."""

from __future__ import annotations

from crawlfleet.model.status import Health
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.protocol import Candidates

# In shares of a full node: a busy processor counts like half its slots, and so does degraded health, so that such a
# node is used once the others are half full, and not only when nothing else is left.
_BUSY_CPU = 0.5
_DEGRADED = 0.5
_LEAST_WEIGHT = 1e-6


class LeastLoaded:
    """The node with the smallest share in use after the task: of slots, or of the resource that is scarcest on it."""

    def __init__(self, candidates: Candidates) -> None:
        for state in candidates.nodes:
            state.strain = _strain(state)

    def cost(self, state: NodeState, given: int) -> float:
        if state.is_on_trial:
            # Before all others: else it would get no task as long as others have room, and could not recover.
            return 0.0
        load, declared = (state.held + 1) / state.slots, state.declared
        for name, amount in state.reserved.items():
            has = declared.get(name, 0.0)
            if amount > load * has:
                # A resource that was never declared counts as used up.
                load = amount / has if has else max(load, 1.0)
        return load + state.strain

    def reason(self, state: NodeState) -> str:
        if state.is_on_trial:
            return "on trial: a task shows whether it works again"
        degraded = ", degraded" if state.node.health is Health.DEGRADED else ""
        return f"{state.held} of {state.slots} slots in use{degraded}"


class LeastTasks:
    """The node that holds the fewest tasks."""

    def __init__(self, candidates: Candidates) -> None:
        pass

    def cost(self, state: NodeState, given: int) -> float:
        return state.held

    def reason(self, state: NodeState) -> str:
        return f"holds {_tasks(state.held)}"


class Weighted:
    """Tasks in proportion to the nodes' weights."""

    def __init__(self, candidates: Candidates) -> None:
        pass

    def cost(self, state: NodeState, given: int) -> float:
        return (state.held + 1) / max(_LEAST_WEIGHT, state.node.description.weight)

    def reason(self, state: NodeState) -> str:
        return f"weight {state.node.description.weight:g}, holds {_tasks(state.held)}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


def _strain(state: NodeState) -> float:
    # The bounds also catch NaN, which would break the order of the heap.
    cpu = min(1.0, max(0.0, state.measurement.cpu)) if state.measurement else 0.0
    return _BUSY_CPU * cpu + (_DEGRADED if state.node.health is Health.DEGRADED else 0.0)
