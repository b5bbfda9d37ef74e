"""The protocol of a strategy, and the data that it may look at."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from crawlfleet.model.evidence import NO_RECORD, Record, Subject
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import Requirement
from crawlfleet.scheduling.placement.filters import NodeState
from crawlfleet.scheduling.placement.regions import DEFAULT_REGIONS, Regions

_NO_ROW = ("", NO_RECORD)


class Evidence:
    """Records of nodes on the subjects of this pass."""

    def __init__(self, rows: Mapping[Subject, Mapping[NodeId, tuple[str, Record]]] | None = None) -> None:
        """`rows` has the address that a node had and its record, by subject and node."""
        self._rows = rows or {}

    def of(self, node: NodeId, subject: Subject) -> Record:
        return self.row(node, subject)[1]

    def row(self, node: NodeId, subject: Subject) -> tuple[str, Record]:
        """The address that the node had, and its record."""
        return self._rows.get(subject, {}).get(node, _NO_ROW)

    def by_address(self, subject: Subject) -> dict[str, Record]:
        """The record of all nodes of an address together, nodes that are gone included."""
        found: dict[str, Record] = {}
        for address, record in self._rows.get(subject, {}).values():
            found[address] = found.get(address, NO_RECORD).plus(record)
        return found


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What strategies know in a pass beside its nodes."""

    now: Instant = 0
    evidence: Evidence = field(default_factory=Evidence)
    regions: Regions = DEFAULT_REGIONS


NOTHING_KNOWN = Knowledge()


class Candidates(NamedTuple):
    """What a strategy may look at when it is set up for one class in one pass."""

    requirement: Requirement
    nodes: Sequence[NodeState]
    rng: random.Random
    last_node: NodeId
    """Node that got the last task of this class in an earlier pass; 0 for none."""
    knowledge: Knowledge = NOTHING_KNOWN


class Strategy(Protocol):
    def cost(self, state: NodeState, given: int) -> float:
        """The price of the next task on this node, which got `given` tasks of the class in this pass already."""
        ...


@runtime_checkable
class ExplainingStrategy(Protocol):
    """A strategy that can explain to a person what speaks for or against a node."""

    def reason(self, state: NodeState) -> str: ...


StrategyFactory = Callable[[Candidates], Strategy]
