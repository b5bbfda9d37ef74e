"""The event log: events numbered in the order of the commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.event import Event, EventBatch
from crawlfleet.model.instants import Instant


class EventStore(Protocol):
    """Access to the event log and its outbox."""

    async def relay(self, term: int, limit: int) -> int:
        """Number committed outbox rows (at most `limit`) and move them to the log; returns the last number, or 0."""
        ...

    async def events_after(self, number: int, limit: int) -> list[Event]: ...

    async def last_event(self) -> int: ...

    async def record(self, batches: Sequence[EventBatch], now: Instant, term: int | None = None) -> None:
        """Write events that belong to no other transition."""
        ...
