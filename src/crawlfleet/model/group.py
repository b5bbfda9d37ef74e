"""Groups: tasks that are looked at, cancelled, retried and exported as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.ids import GroupId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word


class GroupKind(Word):
    GROUP = 0
    """Tasks somebody put together."""
    SHARDS = 1
    """One task's list, split: member n is shard n."""
    FLOW = 2
    CRAWL = 3
    """One crawl over many nodes: each member takes part in it."""


@dataclass(frozen=True, slots=True)
class Group:
    id: GroupId
    project: str
    name: str | None
    kind: GroupKind
    created_at: Instant
    is_closed: bool
    """Nobody may join any more."""
    finished_at: Instant | None
    """When the leader noticed that its last member had ended; None again as soon as one is open."""
    finishes: int
    """How many times that was."""
    spec: bytes | None


class GroupCounts(NamedTuple):
    """Members by what became of them; exact at any moment."""

    open: int = 0
    """Have not ended."""
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
    """Whether nothing of a group is left to do. One that is still empty has not begun, unless nobody may join it."""
    return not counts.open and (counts.total > 0 or is_closed)
