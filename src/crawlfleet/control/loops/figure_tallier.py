"""Folds what nodes counted of target hosts into minutes, hours and totals."""

from __future__ import annotations

from crawlfleet.control.lead import Lead
from crawlfleet.control.loops.loop import LeaderLoop
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.host_figures import HostFigureStore

BATCHES = 100


class FigureTallier(LeaderLoop):
    name = "figure_tallier"
    pause_s = 2.0

    def __init__(self, *, store: HostFigureStore, clock: Clock, lead: Lead) -> None:
        super().__init__(clock, lead)
        self._store = store

    async def run_term(self, term: int, now: Instant) -> bool:
        """Whether there may be more."""
        folded = await self._store.fold_figures(term, now, BATCHES)
        return folded >= BATCHES
