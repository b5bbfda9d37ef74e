"""Folds the statistics of target hosts that nodes report into minutes, hours and totals."""

from __future__ import annotations

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.model.host_stats import ALL_HOSTS, count_answers, count_unreached
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.maintenance_store import CounterStore
from crawlfleet.scheduling.nodes.node_faults import HostReach

BATCHES = 100


class HostStatsAggregator(LeaderLoop):
    name = "figure_tallier"
    pause_s = 2.0

    def __init__(self, *, store: CounterStore, clock: Clock, leadership: LeadershipState, reach: HostReach) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._reach = reach
        """Record of which nodes reach which hosts, for the judgement of their health."""

    async def run_term(self, term: int, now: Instant) -> bool:
        """Fold one batch; True if there may be more."""
        folded = await self._store.fold_figures(term, now, BATCHES)
        now_mono = self._clock.monotonic()
        for batch in folded:
            if batch.node is not None:
                for host, figures in batch.hosts:
                    if host != ALL_HOSTS:
                        self._reach.record_requests(
                            batch.node, host, count_answers(figures), count_unreached(figures), now_mono
                        )
        return len(folded) >= BATCHES
