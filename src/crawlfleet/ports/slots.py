"""How many tasks a node runs at a time: what a person wants, and what the load it measures allows for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant


class SlotChange(NamedTuple):
    """By load."""

    node: NodeId
    had: int
    slots: int
    reason: str


class SlotStore(Protocol):
    async def set_slots(self, node: NodeId, slots: int | None, now: Instant, *, follows_load: bool = False) -> bool:
        """A person's word: so many, or as the load allows, or neither. False when the node is unknown."""
        ...

    async def scale_slots(self, changes: Sequence[SlotChange], term: int, now: Instant) -> set[NodeId]:
        """What the load allows for; a node for which a person has said a number meanwhile is left alone."""
        ...
