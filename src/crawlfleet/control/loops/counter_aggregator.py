"""Folds counter deltas into the counters, so that totals stay exact and cheap to read; and settles finished groups."""

from __future__ import annotations

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.maintenance_store import CounterStore


class CounterAggregator(LeaderLoop):
    name = "tallier"
    pause_s = 1.0

    def __init__(self, *, store: CounterStore, clock: Clock, leadership: LeadershipState) -> None:
        super().__init__(clock, leadership)
        self._store = store

    async def run_term(self, term: int, now: Instant) -> object:
        await self._store.fold_counters(term)
        await self._store.settle_groups(term, now)
        return None
