"""Guards a user's own strategy: its errors cost a worse choice, never a placement."""

from __future__ import annotations

import math
from collections.abc import Callable

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded
from crawlfleet.scheduling.placement.strategies.protocol import (
    Candidates,
    ExplainingStrategy,
    Strategy,
    StrategyFactory,
)

ReportFailure = Callable[[str, str], None]
"""Function that reports a failure: the name of the strategy and the error."""


class GuardedFactory:
    """Factory of a guarded strategy; `least_loaded` replaces it for the rest of the pass when it raises or returns no
    price."""

    def __init__(self, name: str, factory: StrategyFactory, report: ReportFailure) -> None:
        self._name = name
        self._factory = factory
        self._report = report

    def __call__(self, candidates: Candidates) -> Strategy:
        try:
            strategy = self._factory(candidates)
        except Exception as exc:
            self.report_failure(exc)
            return LeastLoaded(candidates)
        return _GuardedStrategy(strategy, LeastLoaded(candidates), self)

    def report_failure(self, exc: Exception) -> None:
        self._report(self._name, f"{type(exc).__name__}: {exc}")


class _GuardedStrategy:
    def __init__(self, user_strategy: Strategy, fallback: LeastLoaded, guard: GuardedFactory) -> None:
        self._user_strategy: Strategy = user_strategy
        self._fallback = fallback
        self._guard = guard

    def cost(self, state: NodeState, given: int) -> float:
        try:
            price = float(self._user_strategy.cost(state, given))
            if math.isnan(price):
                raise ValueError("the price is not a number")
        except Exception as exc:
            self._guard.report_failure(exc)
            self._user_strategy = self._fallback
            return self._fallback.cost(state, given)
        return price

    def reason(self, state: NodeState) -> str:
        if not isinstance(self._user_strategy, ExplainingStrategy):
            return self._fallback.reason(state)
        try:
            return str(self._user_strategy.reason(state))
        except Exception as exc:
            self._guard.report_failure(exc)
            return self._fallback.reason(state)
