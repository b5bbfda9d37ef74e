"""A step: what one transition does to one task. Decided by pure code, written by the store as it stands."""

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
    after: LiveTask
    """With a final status the task leaves the live table."""
    kind: Kind
    ended: ExecutionStatus | None = None
    """How the execution it was held under ended; None when there was none or it goes on."""
    failure: Failure | None = None
    result: bytes | None = None
    metrics: bytes | None = None
    reason: str | None = None
    is_dead_letter: bool = False
    started_at: Instant | None = None
    """When the execution started, by the word of its node, where nobody had said so before."""
    parking: Parking | None = None
    """What it waits for from now on."""
    used: Amounts | None = None
    """What the execution used of its project's day, where it says so."""


Decide = Callable[[LiveTask, RetryPolicy], Step | Refusal]
"""Applied inside the store's transaction to a row nobody else can change meanwhile. Must be pure."""
