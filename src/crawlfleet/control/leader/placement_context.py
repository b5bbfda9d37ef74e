"""What placement goes by beside the nodes: evidence, strategies, and the nodes on which tasks failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlfleet.control.leader.evidence_cache import EvidenceCache
from crawlfleet.control.leader.failed_node_memory import FailedNodeMemory
from crawlfleet.control.leader.strategy_registry import StrategyRegistry


@dataclass(frozen=True, slots=True)
class PlacementContext:
    evidence: EvidenceCache
    strategies: StrategyRegistry = field(default_factory=StrategyRegistry)
    failed_nodes: FailedNodeMemory = field(default_factory=FailedNodeMemory)
