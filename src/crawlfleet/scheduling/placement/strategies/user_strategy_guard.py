"""Guards a user's own strategy: its errors cost a worse choice, never a placement."""

from __future__ import annotations

import math
from collections.abc import Callable

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded
from crawlfleet.scheduling.placement.strategies.protocol import Candidates, Explains, Make, Strategy

Tell = Callable[[str, str], None]
"""Function that reports a failure: the name of the strategy and the error."""


class Guarded:
    """Factory of a guarded strategy; `least_loaded` replaces it for the rest of the pass when it raises or returns no
    price."""

    def __init__(self, name: str, make: Make, tell: Tell) -> None:
        self._name = name
        self._make = make
        self._tell = tell

    def __call__(self, candidates: Candidates) -> Strategy:
        try:
            made = self._make(candidates)
        except Exception as exc:
            self.failed(exc)
            return LeastLoaded(candidates)
        return _Watched(made, LeastLoaded(candidates), self)

    def failed(self, exc: Exception) -> None:
        self._tell(self._name, f"{type(exc).__name__}: {exc}")


class _Watched:
    def __init__(self, theirs: Strategy, ours: LeastLoaded, guard: Guarded) -> None:
        self._theirs: Strategy = theirs
        self._ours = ours
        self._guard = guard

    def cost(self, state: NodeState, given: int) -> float:
        try:
            price = float(self._theirs.cost(state, given))
            if math.isnan(price):
                raise ValueError("the price is not a number")
        except Exception as exc:
            self._guard.failed(exc)
            self._theirs = self._ours
            return self._ours.cost(state, given)
        return price

    def reason(self, state: NodeState) -> str:
        if not isinstance(self._theirs, Explains):
            return self._ours.reason(state)
        try:
            return str(self._theirs.reason(state))
        except Exception as exc:
            self._guard.failed(exc)
            return self._ours.reason(state)
