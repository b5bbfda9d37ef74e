"""Strategy that places by the resources that nodes have left."""

from __future__ import annotations

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.protocol import Candidates

_NAMES = ("cpu", "memory_mb")


class Largest:
    """The node with the most CPU and memory left. A task that reserved nothing counts as its slot's share."""

    def __init__(self, candidates: Candidates) -> None:
        self._largest = {
            name: max((state.declared.get(name, 0.0) for state in candidates.nodes), default=0.0) for name in _NAMES
        }

    def cost(self, state: NodeState, given: int) -> float:
        return -sum(self._left(state, name) / self._largest[name] for name in _NAMES if self._largest[name])

    def reason(self, state: NodeState) -> str:
        return f"{self._left(state, 'cpu'):.3g} cpu and {self._left(state, 'memory_mb'):.0f} MB of memory left"

    def _left(self, state: NodeState, name: str) -> float:
        declared = state.declared.get(name, 0.0)
        if not declared:
            return 0.0
        measurement = state.measurement
        measured = 0.0 if measurement is None else measurement.cpu if name == "cpu" else measurement.memory
        return declared * (1.0 - max(state.held / state.slots, state.reserved.get(name, 0.0) / declared, measured))
