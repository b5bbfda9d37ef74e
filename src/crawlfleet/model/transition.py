"""Transitions: the effect of one transition on one task. Decided by pure code, written unchanged by the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.event import Kind
from crawlfleet.model.execution import Failure
from crawlfleet.model.instants import Instant
from crawlfleet.model.parking import Parking
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ExecutionStatus
from crawlfleet.model.task import LiveTask, RetryPolicy


class Step(NamedTuple):
    """The effect of one transition on one task."""

    after: LiveTask
    """Row after the transition; with a final status the task leaves the live table."""
    kind: Kind
    """Kind of the event that records the transition."""
    ended: ExecutionStatus | None = None
    """Status in which the execution that held the task ended; None when there was none or it continues."""
    failure: Failure | None = None
    result: bytes | None = None
    metrics: bytes | None = None
    reason: str | None = None
    is_dead_letter: bool = False
    """Whether the task becomes a dead letter."""
    started_at: Instant | None = None
    """Instant at which the execution started, as its node reports it, where that was not known before."""
    parking: Parking | None = None
    """Record of what the task waits for from now on, when it is parked."""
    used: Amounts | None = None
    """Amounts that the execution used of its project's day, where it reports them."""


Decide = Callable[[LiveTask, RetryPolicy], Step | Refusal]
"""Decision about a transition, called inside the store's transaction with a row that is locked against other changes.
Must be pure."""
