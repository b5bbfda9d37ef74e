"""Schedules: a task kept as a template, with its timing. Nominal instants are whole seconds, in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.ids import ScheduleId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word

DEFAULT_ZONE = "UTC"


class CatchUp(Word):
    """The policy for ticks that no leader could fire at their time."""

    SKIP = 0
    ONE = 1
    ALL = 2


class Overlap(Word):
    """The policy for a tick while the task of an earlier one has not ended."""

    ALLOW = 0
    SKIP = 1
    QUEUE = 2
    CANCEL_PREVIOUS = 3


class TickStatus(Word):
    """The result of a tick."""

    FIRED = 0
    SKIPPED = 1
    REFUSED = 2
    """The task of the tick could no longer be submitted."""
    BY_HAND = 3
    """A run by a person, at a time of its own."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The timing of a schedule: one of `at`, `every_s` and `cron`, within `starts_at` and `ends_at`."""

    at: Instant | None = None
    every_s: int | None = None
    cron: str | None = None
    time_zone: str = DEFAULT_ZONE
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    jitter_s: int = 0
    """Longest random delay of a tick."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as it is stored."""

    id: ScheduleId
    name: str | None
    project: str
    task_type: str
    task: bytes
    """Template of the task: its body, as JSON."""
    timing: Timing
    anchor_at: Instant
    """Instant from which `every_s` counts, so that it does not drift."""
    catch_up: CatchUp
    overlap: Overlap
    is_paused: bool
    created_at: Instant
    created_by: str
    changed_at: Instant
    fired_until: Instant
    """Instant up to which every tick was processed; it never goes back, whatever a wall clock does."""
    next_at: Instant | None
    """First tick after `fired_until`; None when there is none, or while the schedule is paused."""
    due_at: Instant | None
    """Instant at which that tick fires: its nominal instant and its jitter."""
    held_at: Instant | None = None
    """Tick that waits for the task of an earlier one to end."""
    held_for: TaskId | None = None
    """Id of the task that the held tick waits for."""
    recent: tuple[TaskId, ...] = ()
    """Ids of tasks it made that may not have ended, newest last."""
    last_error: str | None = None
    revision: int = 1
    """Number that counts every change: a decision based on an older revision is not written."""

    @property
    def is_ended(self) -> bool:
        """Whether no tick is left."""
        return self.next_at is None and self.held_at is None and not self.is_paused


@dataclass(frozen=True, slots=True)
class Tick:
    """The record of one nominal instant of a schedule."""

    schedule: ScheduleId
    at: Instant
    status: TickStatus
    task: TaskId | None
    made_at: Instant
    """Instant at which the record was written."""
    reason: str | None = None


class Plan(NamedTuple):
    """The decision about a schedule that is due."""

    ticks: Sequence[Instant]
    """Ticks that fire."""
    missed: tuple[Instant, Instant] | None
    """First and last tick that are left out."""
    fired_until: Instant
    """New value of `Schedule.fired_until`."""
    next_at: Instant | None
    """New value of `Schedule.next_at`."""
    due_at: Instant | None
    """New value of `Schedule.due_at`."""
