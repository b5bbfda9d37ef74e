"""A master as its row in the store shows it: who it is, how long it has been silent, and its own figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from crawlfleet.model.instants import Instant

ALIVE_MS = 15_000
"""Silence after which a master counts as gone: three of its beats are missing."""


@dataclass(frozen=True, slots=True)
class LoopFigures:
    """How a loop of a master keeps its time."""

    passed_s_ago: float
    """Time since its last pass ended."""
    overdue_s: float = 0.0
    """Time by which the end of its next pass is later than its pause: how long the pass under way takes."""


@dataclass(frozen=True, slots=True)
class DiskFigures:
    """The disk of a folder."""

    path: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class MasterFigures:
    """What a master measures of itself. None: not measured."""

    url: str = ""
    """Address on which it listens."""
    loop_lag_p99_ms: float | None = None
    """99th percentile of how late the event loop ran its timers in the last five minutes."""
    commit_p99_ms: float | None = None
    """99th percentile of the time that a transaction took in the last five minutes."""
    loops: Mapping[str, LoopFigures] = field(default_factory=dict)
    """Loops that are not at rest, by name."""
    broker: str = ""
    """Kind of the broker: memory or redis."""
    broker_trouble: str | None = None
    """Why the broker does not work, in words for people."""
    broker_losses: int = 0
    """Number of times that the broker was lost since midnight (UTC), or since the start of the master."""
    broker_resets: int = 0
    """Number of times that the content of the broker was found gone in the same span."""
    broker_memory_ratio: float | None = None
    """Part of its memory limit that the broker uses, where it has one."""
    broker_eviction: str = ""
    """What the broker does at its memory limit, by its own name for it."""
    leader_changes: int = 0
    """Number of times that it saw another leader in the last hour."""
    sessions: Mapping[int, int] = field(default_factory=dict)
    """Number of sessions that nodes opened at it in the last hour, for nodes that opened several."""
    memory_bytes: int = 0
    disks: Mapping[str, DiskFigures] = field(default_factory=dict)
    """Disks of its folders, by what is kept there: data, results."""
    clock_offset_ms: int | None = None
    """Its wall clock minus that of the database's machine; None where both are one machine."""


@dataclass(frozen=True, slots=True)
class MasterIdentity:
    """One start of a master, as it introduces itself."""

    boot: int
    """Number of the start."""
    name: str
    started_at: Instant
    version: str
    address: str = ""
    """URL under which nodes reach it; empty where it has none to offer."""

    @property
    def holder(self) -> str:
        """Name under which this start holds the leadership."""
        return f"{self.name}#{self.boot}"


@dataclass(frozen=True, slots=True)
class MasterRecord:
    """The row of one start of a master."""

    identity: MasterIdentity
    seen_at: Instant
    """Instant of its last beat, or of its start before that, by the clock of the database."""
    silent_ms: int
    """Time since then, by the same clock: the clocks of two masters are never compared."""
    figures: MasterFigures

    @property
    def is_alive(self) -> bool:
        return self.silent_ms < ALIVE_MS


def present_masters(records: Iterable[MasterRecord]) -> list[MasterRecord]:
    """The masters to show, newest start first: those that are alive, and silent ones that were not started again."""
    present: list[MasterRecord] = []
    names: set[str] = set()
    for record in sorted(records, key=lambda record: record.identity.boot, reverse=True):
        if record.is_alive or record.identity.name not in names:
            present.append(record)
        names.add(record.identity.name)
    return present
