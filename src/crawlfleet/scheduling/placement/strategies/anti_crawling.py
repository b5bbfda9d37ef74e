"""Strategy that places by how often sites have blocked nodes, or nodes of the same address."""

from __future__ import annotations

from crawlfleet.model.evidence import BYPASS, HOST, NO_RECORD, Record, Subject
from crawlfleet.model.instants import ms
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded
from crawlfleet.scheduling.placement.strategies.protocol import Candidates

FIRST_COOL_DOWN_S, LONGEST_COOL_DOWN_S = 300.0, 21_600.0
# In shares of a full node. While a node cools down it is used when every other one is full, and the one that has
# waited longest first; later its share of blocks remains.
_COOLING = 1_000.0
BLOCKED_WEIGHT, BYPASS_WEIGHT = 2.0, 1.0
_PRIOR_TOTAL = 2.0
CAPABILITY = "anti_crawling_bypass"


def cool_down_ms(blocked: float) -> int:
    """The cool-down after a block, doubled with each block that still counts."""
    doublings = max(0.0, min(30.0, blocked - 1.0))
    return ms(min(LONGEST_COOL_DOWN_S, FIRST_COOL_DOWN_S * 2.0**doublings))


class AntiCrawling:
    """Load, and a surcharge for blocks by the task's host and for bypasses that the node lacks."""

    def __init__(self, candidates: Candidates) -> None:
        self._load = LeastLoaded(candidates)
        self._now = candidates.knowledge.now
        subjects = candidates.requirement.subjects
        self._host = next((subject for subject in subjects if subject[0] == HOST), None)
        self._needed = [key for kind, key in subjects if kind == BYPASS]
        self._records = _records(candidates, self._host)
        self._surcharge = {state: self._compute_surcharge(state) for state in candidates.nodes}

    def cost(self, state: NodeState, given: int) -> float:
        return self._load.cost(state, given) + self._surcharge[state]

    def reason(self, state: NodeState) -> str:
        lacks = _missing_bypasses(state, self._needed)
        lacking = [f"lacks {', '.join(lacks)}"] if lacks else []
        return "; ".join((self._describe_blocks(state), *lacking, self._load.reason(state)))

    def cooling_ms(self, state: NodeState) -> int:
        """Milliseconds for which the node should still get no task of the host."""
        record = self._records[state]
        if record.last_blocked_at is None:
            return 0
        return max(0, record.last_blocked_at + cool_down_ms(record.blocked) - self._now)

    def _compute_surcharge(self, state: NodeState) -> float:
        record, cooling = self._records[state].decayed_to(self._now), self.cooling_ms(state)
        price = BLOCKED_WEIGHT * record.blocked / (record.total + _PRIOR_TOTAL)
        if self._needed:
            price += BYPASS_WEIGHT * len(_missing_bypasses(state, self._needed)) / len(self._needed)
        return price + (_COOLING * (1.0 + cooling / ms(LONGEST_COOL_DOWN_S)) if cooling else 0.0)

    def _describe_blocks(self, state: NodeState) -> str:
        if self._host is None:
            return "no host known"
        record, host = self._records[state], self._host[1]
        if record.last_blocked_at is None:
            return f"not blocked by {host} so far"
        ago_s = max(0, self._now - record.last_blocked_at) // 1000
        phrase = f"blocked by {host} {ago_s} s ago"
        cooling_s = self.cooling_ms(state) // 1000
        return f"{phrase}, cools down for another {cooling_s} s" if cooling_s else phrase


def _records(candidates: Candidates, host: Subject | None) -> dict[NodeState, Record]:
    """The record of each node on the host, with that of all nodes of its address: sites block addresses."""
    if host is None:
        return dict.fromkeys(candidates.nodes, NO_RECORD)
    evidence = candidates.knowledge.evidence
    by_address = evidence.by_address(host)
    records = {}
    for state in candidates.nodes:
        address = state.node.description.address
        recorded_address, own = evidence.row(state.node.id, host)
        shared = by_address.get(address, NO_RECORD) if address else NO_RECORD
        # Its own record stays with a node that has moved to another address.
        records[state] = shared if address and recorded_address == address else shared.plus(own)
    return records


def _missing_bypasses(state: NodeState, needed: list[str]) -> list[str]:
    offered = dict(state.node.description.capabilities).get(CAPABILITY)
    if isinstance(offered, tuple):
        words = {word.casefold() for word in offered}
        return [word for word in needed if word not in words]
    return [] if offered else needed
