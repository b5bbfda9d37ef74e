"""Drops what retention no longer keeps, a little at a time."""

from __future__ import annotations

from dataclasses import dataclass

from crawlfleet.control.lead import Lead
from crawlfleet.control.loops.loop import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.store import Upkeep

BATCH = 1_000
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    tasks_ms: int = 30 * _DAY_MS
    events_ms: int = 7 * _DAY_MS


class Pruner(LeaderLoop):
    name = "pruner"
    pause_s = 60.0

    def __init__(self, *, store: Upkeep, clock: Clock, lead: Lead, retention: Retention | None = None) -> None:
        super().__init__(clock, lead)
        self._store = store
        self._retention = retention or Retention()

    async def run_term(self, term: int, now: Instant) -> bool:
        """Whether there may be more."""
        kept = self._retention
        return await self._store.prune(term, now, kept.tasks_ms, kept.events_ms, BATCH) >= BATCH
