"""What a checker says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
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
    invariant: Invariant
    detail: str
    at: int | None = None

    def __str__(self) -> str:
        when = "" if self.at is None else f" at {self.at / 1000:.3f} s"
        return f"{self.invariant}{when}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Limits:
    recovery_ms: int = 15_000
    election_ms: int = 5_000
    resume_grace_ms: int = 1_700
    """A node that was stopped and goes on has so long to find out and to stop its own work, by force if need be."""
