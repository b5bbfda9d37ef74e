"""The store of pulls: one row for each node that ever pulled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import OpenPull, PullFilter
from crawlfleet.model.task import LiveTask

SESSION_OVER = 0
"""Number in the answer to a pull whose session is over."""


class PullRequest(NamedTuple):
    """A node's request for work."""

    node: NodeId
    session: int
    want: int
    """Number of tasks; 0 only delivers what the node holds already."""
    span_ms: int
    filter: PullFilter


class PullTurn(NamedTuple):
    """The state of a pull after one of its steps."""

    number: int
    """Number of the node's newest pull: a pull with a lower one is over."""
    claimed: Sequence[LiveTask] = ()
    """Tasks to deliver with this answer; no other answer delivers them within the grace."""


class PullStore(Protocol):
    """Access to pulls. A claim marks the executions that an answer delivers, so that of two pulls at the same time
    only one delivers each. An execution that has not started `grace_ms` after that is delivered again: its answer may
    have been lost."""

    async def begin_pull(self, request: PullRequest, grace_ms: int, now: Instant) -> PullTurn:
        """Begin the next pull of a node: it claims what the node holds and has not started; with nothing to claim it is
        open, and tasks may be assigned to it. The pull before is over."""
        ...

    async def claim_pull(
        self, node: NodeId, number: int, want: int, grace_ms: int, now: Instant, *, is_last: bool
    ) -> PullTurn:
        """Claim what was assigned to the pull, at most `want` tasks. The pull is closed with a claim, or if `is_last`:
        from then on nothing can be assigned to it. Changes nothing when a newer pull has begun."""
        ...

    async def newest_pull(self, node: NodeId) -> int:
        """Return the number of the node's newest pull; 0 before the first."""
        ...

    async def open_pulls(self) -> list[OpenPull]: ...

    async def delivered_executions(self, node: NodeId) -> set[ExecutionId]:
        """Return the executions that were delivered to a node and had not started when it pulled last."""
        ...
