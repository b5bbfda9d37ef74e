"""Schedules: a task kept as a template, and when it is submitted. Nominal instants are whole seconds, in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.ids import ScheduleId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word

DEFAULT_ZONE = "UTC"


class CatchUp(Word):
    """What becomes of ticks that nobody could fire at their time."""

    SKIP = 0
    ONE = 1
    ALL = 2


class Overlap(Word):
    """What a tick does while the task of an earlier one has not ended."""

    ALLOW = 0
    SKIP = 1
    QUEUE = 2
    CANCEL_PREVIOUS = 3


class TickStatus(Word):
    FIRED = 0
    SKIPPED = 1
    REFUSED = 2
    """Its task could not be submitted any more."""
    BY_HAND = 3
    """A person's run, at a time of its own."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One of `at`, `every_s` and `cron`, within `starts_at` and `ends_at`."""

    at: Instant | None = None
    every_s: int | None = None
    cron: str | None = None
    time_zone: str = DEFAULT_ZONE
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    jitter_s: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    id: ScheduleId
    name: str | None
    project: str
    task_type: str
    task: bytes
    """The template: the body of a task, in JSON."""
    timing: Timing
    anchor_at: Instant
    """From where `every_s` counts, so that it does not drift."""
    catch_up: CatchUp
    overlap: Overlap
    is_paused: bool
    created_at: Instant
    created_by: str
    changed_at: Instant
    fired_until: Instant
    """Every tick up to here has had its turn; this never goes back, whatever a wall clock does."""
    next_at: Instant | None
    """The first tick after it; None when there is none, or while it is paused."""
    due_at: Instant | None
    """When that one fires: its instant and its jitter."""
    held_at: Instant | None = None
    """A tick that waits for the task of an earlier one to end."""
    held_for: TaskId | None = None
    """That task."""
    recent: tuple[TaskId, ...] = ()
    """Tasks it made that may not have ended, newest last."""
    last_error: str | None = None
    revision: int = 1
    """Counts every change: what was decided on an older one is not written."""

    @property
    def is_ended(self) -> bool:
        """No tick is left."""
        return self.next_at is None and self.held_at is None and not self.is_paused


@dataclass(frozen=True, slots=True)
class Tick:
    """What became of one nominal instant of a schedule."""

    schedule: ScheduleId
    at: Instant
    status: TickStatus
    task: TaskId | None
    made_at: Instant
    reason: str | None = None


class Plan(NamedTuple):
    """What to do with a schedule that is due."""

    ticks: Sequence[Instant]
    missed: tuple[Instant, Instant] | None
    """The first and the last tick that are left out."""
    fired_until: Instant
    next_at: Instant | None
    due_at: Instant | None
