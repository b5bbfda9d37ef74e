"""Loads users' own strategies: classes of the entry point group `crawlfleet.strategies`, under the name given there."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from crawlfleet.errors import ConfigError
from crawlfleet.scheduling.placement.strategies import BUILT_IN, Candidates, Strategy, StrategyFactory

GROUP = "crawlfleet.strategies"


def own_strategies() -> dict[str, StrategyFactory]:
    """Return the factories of users' strategies by name. Raises ConfigError for a name that is taken. A strategy that
    cannot be loaded fails when it is used, as if it raised."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        if point.name in BUILT_IN:
            raise ConfigError(f"entry point {point.name!r} of {GROUP}: the name of a built-in strategy")
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            raise ConfigError(f"entry point {point.name!r} of {GROUP} is there twice: {first.value} and {point.value}")
    return {name: _load_strategy(point) for name, point in sorted(points.items())}


def _load_strategy(point: EntryPoint) -> StrategyFactory:
    try:
        loaded: object = point.load()
    except Exception as exc:
        # A broken package must not keep the whole installation down: its tasks are placed by the default strategy.
        return _failing_factory(f"{point.value} could not be loaded: {type(exc).__name__}: {exc}")
    return loaded if callable(loaded) else _failing_factory(f"{point.value} is neither a class nor a function")


def _failing_factory(why: str) -> StrategyFactory:
    def raise_error(_candidates: Candidates) -> Strategy:
        raise ConfigError(why)

    return raise_error
