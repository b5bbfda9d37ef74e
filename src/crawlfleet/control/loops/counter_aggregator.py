"""Folds figure deltas into the counters and series of tasks, so that they are cheap to read; and settles groups."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.figure_store import FigureStore
from crawlfleet.ports.maintenance_store import CounterStore

FOLD_EVERY_S = 2.0
"""Span between two folds: totals are exact without them, and every fold rewrites the rows of each series that
changed."""
DELTAS = 1_000


class CounterAggregatorStore(FigureStore, CounterStore, Protocol):
    """The part of the store for the counters of tasks and groups."""


class CounterAggregator(LeaderLoop):
    name = "tallier"
    pause_s = 1.0

    def __init__(self, *, store: CounterAggregatorStore, clock: Clock, leadership: LeadershipState) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._folded_at: float | None = None

    async def run_term(self, term: int, now: Instant) -> bool:
        """Settle groups, and fold deltas when it is time; True if there may be more deltas."""
        await self._store.settle_groups(term, now)
        now_mono = self._clock.monotonic()
        if self._folded_at is not None and now_mono - self._folded_at < FOLD_EVERY_S:
            return False
        is_more = await self._store.fold_counters(term, DELTAS) >= DELTAS
        if not is_more:
            self._folded_at = now_mono
        return is_more
