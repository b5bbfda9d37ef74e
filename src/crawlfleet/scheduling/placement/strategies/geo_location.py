"""Strategy that places by location: in the target region, then in its country, then the nearest."""

from __future__ import annotations

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.regions import Place, distance_km, normal
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded
from crawlfleet.scheduling.placement.strategies.protocol import Candidates

NEAR_KM = 50.0
"""Difference of distances below which nodes count as equally near: between them the load decides."""

_SAME_REGION, _SAME_COUNTRY, _ELSEWHERE, _UNKNOWN = (float(rank * 1_000) for rank in range(4))
# Half of the earth's circumference is some four hundred steps: no distance reaches the next rank.


class GeoLocation:
    """The nearest node; among nodes of one rank and distance the least loaded. Without a target region only the load
    counts."""

    def __init__(self, candidates: Candidates) -> None:
        self._load = LeastLoaded(candidates)
        self._target = candidates.requirement.target_region
        self._regions = candidates.knowledge.regions
        names = {state.node.description.region for state in candidates.nodes}
        self._rank = {name: self._ranked(name) for name in names}

    def cost(self, state: NodeState, given: int) -> float:
        load = self._load.cost(state, given)
        # Pressed below one, which is one step: a full node of the near region goes before an idle one far away.
        return self._rank[state.node.description.region] + load / (1.0 + load)

    def reason(self, state: NodeState) -> str:
        return f"{self._where(state.node.description.region)}; {self._load.reason(state)}"

    def _ranked(self, region: str) -> float:
        target = self._target
        if target is None or normal(region) == normal(target):
            return _SAME_REGION
        wanted, found = self._regions.find(target), self._regions.find(region)
        if wanted is None or found is None:
            return _UNKNOWN
        steps = round(distance_km(wanted, found) / NEAR_KM)
        return (_SAME_COUNTRY if _is_same_country(wanted, found) else _ELSEWHERE) + steps

    def _where(self, region: str) -> str:
        target = self._target
        if target is None:
            return "no target region"
        if normal(region) == normal(target):
            return f"same region {region}"
        wanted, found = self._regions.find(target), self._regions.find(region)
        if wanted is None or found is None:
            return f"no known distance from {region or 'nowhere in particular'} to {target}"
        country = f"same country {found.country}, " if _is_same_country(wanted, found) else ""
        return f"{country}{region} is {distance_km(wanted, found):,.0f} km from {target}"


def _is_same_country(one: Place, other: Place) -> bool:
    return bool(one.country) and one.country == other.country
