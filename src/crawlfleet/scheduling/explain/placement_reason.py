"""Explains why a node has a task: the strategy, and what speaks for the node in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies import ExplainingStrategy, Strategy


@dataclass(frozen=True, slots=True)
class PlacementReason:
    strategy: str
    reason: str
    allocation: Mapping[str, float] = field(default_factory=dict)
    """Amount that the task gets of each resource it reserved, at least."""

    @property
    def sentence(self) -> str:
        return f"{self.strategy}: {self.reason}" if self.reason else f"chosen by {self.strategy}"

    def as_data(self) -> dict[str, Any]:
        data = {"strategy": self.strategy, "reason": self.reason}
        return data | ({"allocation": dict(self.allocation)} if self.allocation else {})


def placement_reason(name: str, strategy: Strategy, state: NodeState) -> PlacementReason:
    """The reason as of now: the node may hold more, or less, than when it was chosen."""
    return PlacementReason(name, strategy.reason(state) if isinstance(strategy, ExplainingStrategy) else "")
