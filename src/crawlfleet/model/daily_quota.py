"""Daily quotas: what is counted, by which day, and the slices of it that executions hold.

A day is a UTC day by a master's clock. An execution is granted more and more of its project's day; all it was granted
so far is said each time, so that a message that comes twice says nothing new.
"""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant

DAY_MS = 86_400_000
Day = int
"""Days since 1970-01-01, UTC."""


def day_of(now: Instant) -> Day:
    return now // DAY_MS


def end_of(day: Day) -> Instant:
    return (day + 1) * DAY_MS


class Amounts(NamedTuple):
    pages: int = 0
    """Requests that were sent."""
    bytes: int = 0
    """Of bodies that were read, as they come over the wire."""

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.pages + other.pages, self.bytes + other.bytes)


QUOTAS = ("pages_per_day", "bytes_per_day")
"""In the order of the amounts."""
FIRST = Amounts(20, 2 << 20)
"""What an execution asks for at first. Small: what a short crawl holds and does not use, others may lack meanwhile."""
MOST = Amounts(100_000, 1 << 30)
"""In one slice, also where there is no quota."""


class Want(NamedTuple):
    """What an execution asks for. It asks under the next number when it has heard of the last one."""

    node: NodeId
    """Who says it."""
    task: TaskId
    execution: ExecutionId
    number: int
    asked: Amounts


class Holding(NamedTuple):
    """What an execution was granted."""

    execution: ExecutionId
    project: str
    day: Day
    number: int
    """Of the want that was granted last."""
    today: Amounts = Amounts()
    """Of `day`."""
    total: Amounts = Amounts()
    """In its whole life: what was granted on one day may be used on the next, and counts for the first."""


class Over(NamedTuple):
    """Why an execution gets nothing more of one amount."""

    quota: str
    project: str
    message: str
    again_ms: int
    """Until the day ends, for an execution that may wait for that; 0: it fails."""
    is_held: bool = False
    """Others hold some of the day, which may come back any moment."""


class Slice(NamedTuple):
    """The answer to a want."""

    number: int
    total: Amounts
    """All that the execution was granted so far."""
    overs: tuple[Over, ...] = ()
