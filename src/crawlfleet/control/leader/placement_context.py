"""What placement goes by beside the nodes: evidence, strategies, and the nodes on which tasks failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlfleet.control.leader.evidence_cache import Knowing
from crawlfleet.control.leader.failed_node_memory import Avoided
from crawlfleet.control.leader.strategy_registry import StrategyBook


@dataclass(frozen=True, slots=True)
class Advice:
    knowing: Knowing
    strategies: StrategyBook = field(default_factory=StrategyBook)
    avoided: Avoided = field(default_factory=Avoided)
