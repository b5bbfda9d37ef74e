"""Slots of nodes that only pull: an open pull gives its node as many free slots as it asks for, and no more than the
node has."""

from __future__ import annotations

from collections.abc import Collection

from crawlfleet.model.ids import ExecutionId
from crawlfleet.model.node import OpenPull


def pull_slots(pull: OpenPull, slots: int, held: Collection[ExecutionId]) -> int:
    """Return the number of slots that a node counts with during its pull: those in use, and what is left of the pull.

    `slots` is the number that the node has, `held` are the executions it holds now. Those that it did not hold when
    the pull was opened were assigned to the pull; one that ended meanwhile leaves the pull as it was.
    """
    assigned = sum(execution not in pull.held for execution in held)
    return min(slots, len(held) + max(0, pull.want - assigned))
