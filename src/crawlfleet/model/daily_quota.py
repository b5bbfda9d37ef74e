"""Daily quotas: the amounts that are counted, the day they count for, and the quota slices that executions hold.

A day is a UTC day by a master's clock. An execution is granted more and more of its project's day; each message carries
the total that it was granted so far, so that a message that comes twice has no further effect.
"""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant

DAY_MS = 86_400_000
Day = int
"""Number of days since 1970-01-01, UTC."""


def utc_day(now: Instant) -> Day:
    return now // DAY_MS


def day_end(day: Day) -> Instant:
    return (day + 1) * DAY_MS


class Amounts(NamedTuple):
    """Amounts that daily quotas limit."""

    pages: int = 0
    """Number of requests that were sent."""
    bytes: int = 0
    """Bytes of the bodies that were read, as they come over the wire."""

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(self.pages + other.pages, self.bytes + other.bytes)


QUOTAS = ("pages_per_day", "bytes_per_day")
"""Names of the quotas, in the order of the fields of `Amounts`."""
FIRST = Amounts(20, 2 << 20)
"""Amounts that an execution asks for at first. Small, because other executions may lack what a short crawl holds and
does not use."""
MOST = Amounts(100_000, 1 << 30)
"""Largest amounts of one slice, also where there is no quota."""


class SliceRequest(NamedTuple):
    """An execution's request for a slice. It sends the next number after it has the answer to the last one."""

    node: NodeId
    """Id of the node that sends the request."""
    task: TaskId
    execution: ExecutionId
    number: int
    """Number of the request within the execution."""
    amounts: Amounts


class Holding(NamedTuple):
    """The amounts that an execution was granted."""

    execution: ExecutionId
    project: str
    day: Day
    number: int
    """Number of the request that was granted last."""
    today: Amounts = Amounts()
    """Amounts granted on `day`."""
    total: Amounts = Amounts()
    """Amounts granted to the execution in all: what was granted on one day may be used on the next, and counts for the
    first."""


class QuotaDenial(NamedTuple):
    """The reason why an execution gets nothing more of one amount."""

    quota: str
    project: str
    message: str
    again_ms: int
    """Span until the day ends, for an execution that may wait for that; 0 for one that fails."""
    is_held: bool = False
    """Whether other executions hold some of the day, which may be returned at any time."""


class Slice(NamedTuple):
    """The answer to a request for a slice."""

    number: int
    total: Amounts
    """Amounts that the execution was granted so far, in all."""
    denials: tuple[QuotaDenial, ...] = ()
    """Reasons for the amounts of which nothing more is granted."""
