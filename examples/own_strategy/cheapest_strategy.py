"""A strategy of your own: the cheapest node that has room, by what nodes say they cost.

pip install ./own_strategy                                                (beside crawlfleet, where the masters run)
crawlfleet config set strategy=cheapest
crawlfleet worker --capability price_per_hour=0.04 ...
"""

from __future__ import annotations

from crawlfleet import Candidates, NodeState

UNSAID = 1.0


class Cheapest:
    """One object serves one class of tasks in one pass: what takes time is done once, here, and not in `cost`."""

    def __init__(self, candidates: Candidates) -> None:
        self._price = {state: price_per_hour(state) for state in candidates.nodes}

    def cost(self, state: NodeState, given: int) -> float:
        """Of the next task on this node. It may only rise with what the node holds."""
        used = (state.held + 1) / state.slots
        return self._price[state] + used / 1_000

    def reason(self, state: NodeState) -> str:
        """May be left out: what `crawlfleet task why` says of the node that has a task."""
        return f"{self._price[state]:g} an hour, {state.held} of {state.slots} slots in use"


def price_per_hour(state: NodeState) -> float:
    said = dict(state.node.description.capabilities).get("price_per_hour", UNSAID)
    return said if isinstance(said, float) else UNSAID
