"""Strategies: which of the suitable nodes gets the next task.

A strategy prices the next task on a node; the cheapest node gets it, ties fall by chance. A price may only rise with
what the node holds: then one heap spreads any number of tasks of a class. Strategies never refuse a node.
"""

from __future__ import annotations

from collections.abc import Mapping

from crawlfleet.model.requirement import DEFAULT_STRATEGY
from crawlfleet.scheduling.placement.strategies.anti_crawling import AntiCrawling
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded, LeastTasks, Weighted
from crawlfleet.scheduling.placement.strategies.by_size import Largest
from crawlfleet.scheduling.placement.strategies.content_based import ContentBased
from crawlfleet.scheduling.placement.strategies.geo_location import GeoLocation
from crawlfleet.scheduling.placement.strategies.protocol import (
    NOTHING_KNOWN,
    Candidates,
    Evidence,
    ExplainingStrategy,
    Knowledge,
    Strategy,
    StrategyFactory,
)
from crawlfleet.scheduling.placement.strategies.round_robin import Random, RoundRobin
from crawlfleet.scheduling.placement.strategies.user_strategy_guard import GuardedFactory

BUILT_IN: Mapping[str, StrategyFactory] = {
    "least_loaded": LeastLoaded,
    "least_tasks": LeastTasks,
    "round_robin": RoundRobin,
    "weighted": Weighted,
    "random": Random,
    "largest": Largest,
    "geo_location": GeoLocation,
    "content_based": ContentBased,
    "anti_crawling": AntiCrawling,
}

BY_SUBJECT = frozenset({"content_based", "anti_crawling"})
"""Strategies that look at the subjects of the work."""

__all__ = [
    "BUILT_IN",
    "BY_SUBJECT",
    "DEFAULT_STRATEGY",
    "NOTHING_KNOWN",
    "Candidates",
    "Evidence",
    "ExplainingStrategy",
    "GuardedFactory",
    "Knowledge",
    "Strategy",
    "StrategyFactory",
]
