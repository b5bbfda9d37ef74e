"""Strategies that place by turn or by chance, whatever nodes hold."""

from __future__ import annotations

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.protocol import Candidates


class RoundRobin:
    """Nodes take turns by id, each class with a turn of its own, from the node after the last."""

    def __init__(self, candidates: Candidates) -> None:
        ids = sorted(state.node.id for state in candidates.nodes)
        self._turns = len(ids)
        ring = [node for node in ids if node > candidates.last_node]
        ring += [node for node in ids if node <= candidates.last_node]
        self._position = {node: place for place, node in enumerate(ring)}

    def cost(self, state: NodeState, given: int) -> float:
        return self._position[state.node.id] + self._turns * given

    def reason(self, state: NodeState) -> str:
        return f"its turn among {self._turns} {'node' if self._turns == 1 else 'nodes'}"


class Random:
    def __init__(self, candidates: Candidates) -> None:
        self._rng = candidates.rng

    def cost(self, state: NodeState, given: int) -> float:
        return self._rng.random()

    def reason(self, state: NodeState) -> str:
        return "by chance"
