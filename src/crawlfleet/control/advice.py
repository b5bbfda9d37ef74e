"""What the choice of a node goes by, beside the nodes themselves."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlfleet.control.avoided import Avoided
from crawlfleet.control.knowing import Knowing
from crawlfleet.control.strategy_book import StrategyBook


@dataclass(frozen=True, slots=True)
class Advice:
    knowing: Knowing
    strategies: StrategyBook = field(default_factory=StrategyBook)
    avoided: Avoided = field(default_factory=Avoided)
