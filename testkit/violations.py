"""Violations of invariants, as a checker reports them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
    """A promise of the installation that a checker tests."""

    NONE_LOST = "none lost"
    WHOLE_OR_ABSENT = "whole or absent"
    ONE_OUTCOME = "one outcome"
    RETRIES_BOUNDED = "retries bounded"
    ALL_GIVEN_BACK = "all given back"
    COUNTERS_TRUE = "counters true"
    RECOVERY_BOUNDED = "recovery bounded"
    RESOURCES_FLAT = "resources flat"
    EVENTS_WHOLE = "events whole"
    ANSWERS_TRUE = "answers true"
    STAYS_UP = "stays up"
    EACH_TICK_ONCE = "each tick once"
    QUOTAS_KEPT = "quotas kept"
    NEVER_OVERCOMMITTED = "never over-committed"
    ORDER_KEPT = "order kept"
    NONE_STARVES = "none starves"
    STEPS_ONCE = "steps once, in their turn"


@dataclass(frozen=True, slots=True)
class Violation:
    """A case in which an invariant did not hold."""

    invariant: Invariant
    detail: str
    at: int | None = None
    """Time of the violation, in milliseconds of the run."""

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {self.at / 1000:.3f} s"
        return f"{self.invariant}{when}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Limits:
    """The time limits that the checker judges by."""

    recovery_ms: int = 15_000
    """Time in which the work of a dead node must be assigned to another one."""
    election_ms: int = 5_000
    """Time in which a dead leader must be replaced."""
    resume_grace_ms: int = 1_700
    """Time in which a node that was paused and resumed must notice that and stop its own work, by force if need be."""
