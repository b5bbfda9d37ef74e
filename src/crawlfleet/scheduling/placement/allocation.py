"""Allocates a node's resources to its tasks: never less than a task requires, more while there is more.

What a task requires is reserved, and the reservations of a node never exceed what it has (times the over-commitment
that was set). What is left above that is lent: every task would be comfortable with somewhat more than its minimum,
and gets the same share of that. When more tasks come or the node is busy, the loans shrink, the minimum never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crawlfleet.model.node import Measurement
from crawlfleet.model.requirement import Requirement

COMFORT_FACTORS = {"cpu": 1.25, "memory_mb": 1.5}
"""Factors of its minimum that a task would be comfortable with, by resource."""
CAPABILITY_FACTORS = {("javascript_rendering", "memory_mb"): 2.0, ("proxy_rotation", "cpu"): 2.0}
"""Further factors by capability: a browser's memory, the processor for encrypted connections through proxies."""
# Loans are whole up to half a node's load, and none are given from nine tenths on.
_EASY_LOAD, _BUSY_LOAD = 0.5, 0.9


def comfortable_amounts(requirement: Requirement) -> dict[str, float]:
    capabilities = {name for name, wanted in requirement.capabilities if wanted}
    amounts = {}
    for name, minimum in requirement.resources:
        factor = COMFORT_FACTORS.get(name, 1.0)
        for capability in capabilities:
            factor *= CAPABILITY_FACTORS.get((capability, name), 1.0)
        amounts[name] = minimum * factor
    return amounts


def loan_shares(
    capacity: Mapping[str, float], held: Iterable[tuple[Requirement, int]], measured: Measurement | None = None
) -> dict[str, float]:
    """The share of what tasks want above their minimum that a node lends, by resource; 0 to 1.

    `held` are the classes on the node (on all nodes of its machine) with their numbers of tasks.
    """
    left, wanted = dict(capacity), dict.fromkeys(capacity, 0.0)
    for requirement, count in held:
        comfort = comfortable_amounts(requirement)
        for name, minimum in requirement.resources:
            left[name] = left.get(name, 0.0) - minimum * count
            wanted[name] = wanted.get(name, 0.0) + (comfort[name] - minimum) * count
    load_factors = {"cpu": _loan_factor(measured.cpu), "memory_mb": _loan_factor(measured.memory)} if measured else {}
    return {
        name: max(0.0, min(1.0, left[name] / wanted[name])) * load_factors.get(name, 1.0) if wanted[name] > 0 else 0.0
        for name in left
    }


def allocated_amounts(requirement: Requirement, shares: Mapping[str, float]) -> dict[str, float]:
    comfort = comfortable_amounts(requirement)
    return {
        name: minimum + (comfort[name] - minimum) * shares.get(name, 0.0) for name, minimum in requirement.resources
    }


def _loan_factor(load: float) -> float:
    # Written so that NaN lends nothing.
    return max(0.0, min(1.0, (_BUSY_LOAD - load) / (_BUSY_LOAD - _EASY_LOAD))) if load < _BUSY_LOAD else 0.0
