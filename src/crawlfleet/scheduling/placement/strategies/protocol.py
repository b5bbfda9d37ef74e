"""What a strategy is, and what it may look at."""

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
from crawlfleet.scheduling.placement.regions import USUAL_REGIONS, Regions

_NO_ROW = ("", NO_RECORD)


class Evidence:
    """What is known of nodes on the subjects of this pass."""

    def __init__(self, rows: Mapping[Subject, Mapping[NodeId, tuple[str, Record]]] | None = None) -> None:
        """By subject and node: the address the node had, and its record."""
        self._rows = rows or {}

    def of(self, node: NodeId, subject: Subject) -> Record:
        return self.row(node, subject)[1]

    def row(self, node: NodeId, subject: Subject) -> tuple[str, Record]:
        """With the address it had."""
        return self._rows.get(subject, {}).get(node, _NO_ROW)

    def by_address(self, subject: Subject) -> dict[str, Record]:
        """Of all nodes that came from an address, those that are gone among them."""
        found: dict[str, Record] = {}
        for address, record in self._rows.get(subject, {}).values():
            found[address] = found.get(address, NO_RECORD).plus(record)
        return found


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a pass knows beside its nodes."""

    now: Instant = 0
    evidence: Evidence = field(default_factory=Evidence)
    regions: Regions = USUAL_REGIONS


NOTHING_KNOWN = Knowledge()


class Candidates(NamedTuple):
    """What a strategy may look at when it is set up for one class in one pass."""

    requirement: Requirement
    nodes: Sequence[NodeState]
    rng: random.Random
    last_node: NodeId
    """The node that took the last task of this class in an earlier pass; 0 for none."""
    knowledge: Knowledge = NOTHING_KNOWN


class Strategy(Protocol):
    def cost(self, state: NodeState, given: int) -> float:
        """Of the next task on this node, which got `given` tasks of the class in this pass already."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A strategy that can say, for a person, what speaks for or against a node."""

    def reason(self, state: NodeState) -> str: ...


Make = Callable[[Candidates], Strategy]
