"""What is known of a target host: what may be asked of it, how it has answered, and who holds which part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant

EASE = 1.05
"""How much wider than its share a holder spaces its requests: then r units are at most r requests in any second."""


class Units(NamedTuple):
    """Whole parts of a budget: they can be added and given away."""

    rate: int = 0
    """Requests a second."""
    concurrency: int = 0
    """Requests under way at once."""

    def __bool__(self) -> bool:
        """Whether anything can be asked for with it: one is of no use without the other."""
        return self.rate > 0 and self.concurrency > 0

    def fits(self, within: Units) -> bool:
        return self.rate <= within.rate and self.concurrency <= within.concurrency

    def most(self, other: Units) -> Units:
        return Units(max(self.rate, other.rate), max(self.concurrency, other.concurrency))


NONE = Units()


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What somebody says of a host; None: nothing."""

    rate: float | None = None
    """Requests a second: a whole number, or less than one."""
    concurrency: int | None = None
    delay_s: float | None = None

    def __bool__(self) -> bool:
        return self != HostLimits()


@dataclass(frozen=True, slots=True)
class Backoff:
    level: int = 0
    until: Instant = 0
    """No request before that; 0 when none was ever refused."""
    quiet_since: Instant = 0
    reason: str = ""

    def is_on(self, now: Instant) -> bool:
        return now < self.until


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    limits: HostLimits = field(default_factory=HostLimits)
    """Set by a person."""
    set_by: str | None = None
    set_at: Instant | None = None
    crawl_delay_ms: int = 0
    """Of its robots.txt."""
    backoff: Backoff = field(default_factory=Backoff)
    requests: int = 0
    refused: int = 0
    blocked: int = 0
    recent_milli: int = 0
    """Requests in a thousand seconds, as of the last count."""
    counted_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class HostShare:
    """What one session of a node has of one host."""

    id: int
    node: NodeId
    session: int
    host: str
    wanted: int | None = None
    current: Units = NONE
    may_use: Units = NONE
    spacing_ms: int = 0
    cut_version: int = 0
    counted: tuple[int, int, int] = (0, 0, 0)
    """Requests, refused and blocked ones of the session that are in the host's counters."""
