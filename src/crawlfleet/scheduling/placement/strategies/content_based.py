"""Strategy that places by how nodes did with such content before, and by what they declare."""

from __future__ import annotations

from crawlfleet.model.evidence import CONTENT_KINDS, CONTENT_TYPE, Record, Subject, sum_records
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.strategies.by_load import LeastLoaded
from crawlfleet.scheduling.placement.strategies.protocol import Candidates

# A node without a record counts as one that did well nine times out of ten, on so few executions that a handful of
# its own outweigh them: it goes before one that often fails, and is tried when the proven ones fill up.
PRIOR_OK, PRIOR_TOTAL = 4.5, 5.0
# In shares of a full node: a node that always fails is used when all others are full.
RECORD_WEIGHT, DECLARED_WEIGHT = 2.0, 1.0
_UNDECLARED = 0.5

_CAPABILITY = {CONTENT_TYPE: "content_types"}


class ContentBased:
    """Load, and a surcharge for what speaks against the node. Without content features only the load counts."""

    def __init__(self, candidates: Candidates) -> None:
        self._load = LeastLoaded(candidates)
        self._subjects = [subject for subject in candidates.requirement.subjects if subject[0] in CONTENT_KINDS]
        self._knowledge = candidates.knowledge
        self._surcharge = {state: self._compute_surcharge(state) for state in candidates.nodes}

    def cost(self, state: NodeState, given: int) -> float:
        return self._load.cost(state, given) + self._surcharge[state]

    def reason(self, state: NodeState) -> str:
        return "; ".join((self._describe_record(state), *self._describe_declared(state), self._load.reason(state)))

    def _compute_surcharge(self, state: NodeState) -> float:
        if not self._subjects:
            return 0.0
        share = 1.0 / len(self._subjects)
        success = sum(success_rate(record) for record in self._records(state)) * share
        declared = sum(_declared_share(state, subject) for subject in self._subjects) * share
        return RECORD_WEIGHT * (1.0 - success) + DECLARED_WEIGHT * (1.0 - declared)

    def _records(self, state: NodeState) -> list[Record]:
        knowledge = self._knowledge
        return [knowledge.evidence.of(state.node.id, subject).decayed_to(knowledge.now) for subject in self._subjects]

    def _describe_record(self, state: NodeState) -> str:
        if not self._subjects:
            return "no content features"
        about = ", ".join(key for _, key in self._subjects)
        total_record = sum_records(self._records(state))
        if total_record.total < 1.0:
            return f"no record on {about} yet"
        return f"{total_record.ok / total_record.total:.0%} of its recent executions on {about} succeeded"

    def _describe_declared(self, state: NodeState) -> list[str]:
        named = [key for kind, key in self._subjects if _declared_share(state, (kind, key)) == 1.0]
        return [f"declares {', '.join(named)}"] if named else []


def success_rate(record: Record) -> float:
    return (record.ok + PRIOR_OK) / (record.total + PRIOR_TOTAL)


def _declared_share(state: NodeState, subject: Subject) -> float:
    """1 if the node declares the subject, 0 if it declares others, between if it declares none."""
    kind, key = subject
    offered = dict(state.node.description.capabilities).get(_CAPABILITY.get(kind, "technologies"))
    if offered is None:
        return _UNDECLARED
    if isinstance(offered, tuple):
        return float(key in {word.casefold() for word in offered})
    return float(bool(offered))
