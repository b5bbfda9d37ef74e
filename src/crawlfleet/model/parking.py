"""Parking: a task that waits for something known to last gives its slot back, with the cause of its wait."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word


class ParkCause(Word):
    """Why a task is parked."""

    LATER = 0
    """The executor asked for it, in its own words."""
    HOST_BACKOFF = 1
    """All nodes leave the target host alone; the subject is the host."""
    DAILY_QUOTA = 2
    """The project has nothing left of its day; the subject is the project."""


class Park(NamedTuple):
    """A node's request to park a task. It gives a span: the node's clock is data."""

    span_ms: int
    cause: ParkCause = ParkCause.LATER
    subject: str = ""


class Parking(NamedTuple):
    """The record of a parked task, for as long as it is parked."""

    cause: ParkCause
    subject: str
    until: Instant
    """Instant until which the cause lasts. The task is ready a little later, as others wait for the same."""
    times: int
    """Number of times that the task was parked in this round, this one included."""
    message: str
    """Message of the node."""
