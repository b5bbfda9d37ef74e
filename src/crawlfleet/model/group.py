"""Groups: tasks that are looked at, cancelled, retried and exported together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.ids import GroupId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word


class GroupKind(Word):
    """The origin of a group."""

    GROUP = 0
    """A group of tasks that a user put together."""
    SHARDS = 1
    """The shards of one task whose list was split: member n is shard n."""
    FLOW = 2
    """The steps of a flow."""
    CRAWL = 3
    """One crawl over many nodes: each member takes part in it."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group as it is stored."""

    id: GroupId
    project: str
    name: str | None
    kind: GroupKind
    created_at: Instant
    is_closed: bool
    """Whether no further members may be added."""
    finished_at: Instant | None
    """Instant at which the leader found that the last member had ended; None again as soon as one is open."""
    finishes: int
    """Number of times that the group finished."""
    spec: bytes | None
    """Specification of a group that was made from one task, as JSON."""


class GroupCounts(NamedTuple):
    """The numbers of members by status; exact at any time."""

    open: int = 0
    """Number of members that have not ended."""
    completed: int = 0
    failed: int = 0
    timeout: int = 0
    cancelled: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def ended(self) -> int:
        return self.total - self.open


def is_finished(counts: GroupCounts, is_closed: bool) -> bool:
    """Return whether nothing of a group is left to do. An empty group has not begun, unless it is closed."""
    return not counts.open and (counts.total > 0 or is_closed)
