"""Strategy that places by location: in the target region, then in its country, then the nearest."""

from __future__ import annotations

from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.regions import Location, distance_km, normalize_name
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
        self._rank = {name: self._compute_rank(name) for name in names}

    def cost(self, state: NodeState, given: int) -> float:
        load = self._load.cost(state, given)
        # Pressed below one, which is one step: a full node of the near region goes before an idle one far away.
        return self._rank[state.node.description.region] + load / (1.0 + load)

    def reason(self, state: NodeState) -> str:
        return f"{self._describe_distance(state.node.description.region)}; {self._load.reason(state)}"

    def _compute_rank(self, region: str) -> float:
        target = self._target
        if target is None or normalize_name(region) == normalize_name(target):
            return _SAME_REGION
        wanted, location = self._regions.find_location(target), self._regions.find_location(region)
        if wanted is None or location is None:
            return _UNKNOWN
        steps = round(distance_km(wanted, location) / NEAR_KM)
        return (_SAME_COUNTRY if _is_same_country(wanted, location) else _ELSEWHERE) + steps

    def _describe_distance(self, region: str) -> str:
        target = self._target
        if target is None:
            return "no target region"
        if normalize_name(region) == normalize_name(target):
            return f"same region {region}"
        wanted, location = self._regions.find_location(target), self._regions.find_location(region)
        if wanted is None or location is None:
            return f"no known distance from {region or 'nowhere in particular'} to {target}"
        country = f"same country {location.country}, " if _is_same_country(wanted, location) else ""
        return f"{country}{region} is {distance_km(wanted, location):,.0f} km from {target}"


def _is_same_country(one: Location, other: Location) -> bool:
    return bool(one.country) and one.country == other.country
