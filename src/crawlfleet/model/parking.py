"""Parking: a task that waits for something known to last gives its slot back and says what it waits for."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Word


class ParkCause(Word):
    LATER = 0
    """Its executor asked for it, in its own words."""
    HOST_BACKOFF = 1
    """Its target host is left alone by everybody; the subject is the host."""
    DAILY_QUOTA = 2
    """Its project has nothing left of its day; the subject is the project."""


class Park(NamedTuple):
    """What a node asks for. A span: the node's clock is data."""

    span_ms: int
    cause: ParkCause = ParkCause.LATER
    subject: str = ""


class Parking(NamedTuple):
    """Where a parked task stands, for as long as it is parked."""

    cause: ParkCause
    subject: str
    until: Instant
    """What it waits for lasts until then. It is ready a little later, as others wait for the same."""
    times: int
    """In this round, this one among them."""
    message: str
    """As the node said it."""
