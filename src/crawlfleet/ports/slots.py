"""The number of slots of a node: what a person orders, and what the measured load allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant


class SlotChange(NamedTuple):
    """A change of a node's slots because of its load."""

    node: NodeId
    had: int
    """Number of slots that the change follows."""
    slots: int
    reason: str


class SlotStore(Protocol):
    """Access to the slots of nodes."""

    async def set_slots(self, node: NodeId, slots: int | None, now: Instant, *, follows_load: bool = False) -> bool:
        """Store a person's order: this number, or as the load allows, or neither. False when the node is unknown."""
        ...

    async def scale_slots(self, changes: Sequence[SlotChange], term: int, now: Instant) -> set[NodeId]:
        """Set the slots that the load allows; skips a node for which a person has ordered a number meanwhile."""
        ...
