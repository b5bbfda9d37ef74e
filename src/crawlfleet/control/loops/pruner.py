"""Deletes what is past its retention, a little at a time: rows, and then the result chunks of deleted tasks.

Age is judged only by a clock that is trusted (see `scheduling.nodes.clock_trust`). On a database with a clock of its
own the earlier of the two clocks counts: a clock that is ahead deletes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from crawlfleet.control.leader.lane_sweep import LaneSweep
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.model.installation.retention import DAY_MS, Retention
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.maintenance_store import PruneCursor, RetentionStore
from crawlfleet.scheduling.nodes.clock_trust import ClockTrust

BATCH = 1_000
HOSTS_INTERVAL_S = 600.0
"""Seconds between two scans of the hosts, which have no index by age."""
KEEP_HOSTS_MS = 30 * DAY_MS


class Pruner(LeaderLoop):
    name = "pruner"
    pause_s = 60.0

    def __init__(
        self,
        *,
        store: RetentionStore,
        clock: Clock,
        leadership: LeadershipState,
        retention: Retention | None = None,
        chunks: ChunkStore | None = None,
        database_clock: Callable[[], Awaitable[Instant | None]] | None = None,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._retention = retention or Retention()
        self._chunks = chunks
        self._database_clock = database_clock
        self._trust = ClockTrust()
        self._is_doubted = False
        self._cursor = PruneCursor()
        self._hosts_pruned_at: float | None = None
        self._lanes = LaneSweep(store=store, clock=clock)

    async def run_term(self, term: int, now: Instant) -> bool:
        """Delete one batch; True if there may be more."""
        is_more = await self._prune(term)
        # By spans that it measures itself, whatever the wall clock says.
        await self._lanes.advance(term)
        return is_more

    async def _prune(self, term: int) -> bool:
        # First the chunks that could not be removed the last time, so that the list does not grow.
        await self._remove_chunks(term)
        believed = await self._believed_instant(term)
        if believed is None:
            return False
        retention = self._retention
        pruned = await self._store.prune_rows(
            term,
            believed,
            retention.tasks_ms,
            retention.events_ms,
            BATCH,
            keep_audit_ms=retention.audit_ms,
            keep_gone_ms=retention.gone_products_ms,
            after=self._cursor,
        )
        self._cursor = pruned.cursor
        is_more = await self._drop_hosts(term, believed)
        await self._remove_chunks(term)
        return is_more or pruned.is_more

    async def _believed_instant(self, term: int) -> Instant | None:
        """The time by which age is judged; None while no clock is trusted."""
        mark = await self._store.clock_mark()
        other = await self._database_clock() if self._database_clock is not None else None
        # Both at one moment: the calls above may take long.
        own, now_mono = self._clock.now(), self._clock.monotonic()
        wall = own if other is None else min(own, other)
        if self._trust.observe(wall, now_mono, mark):
            if self._is_doubted and mark is not None:
                log.info("clock_believed_again", wall=to_text(wall))
            self._is_doubted = False
            await self._store.set_clock_mark(term, wall)
            return wall
        if not self._is_doubted and mark is not None:
            log.warning(
                "clock_not_believed",
                wall=to_text(wall),
                last_believed=to_text(mark),
                effect="nothing is deleted by age until it has run steadily for an hour",
            )
        self._is_doubted = True
        return None

    async def _drop_hosts(self, term: int, now: Instant) -> bool:
        now_mono = self._clock.monotonic()
        if self._hosts_pruned_at is not None and now_mono - self._hosts_pruned_at < HOSTS_INTERVAL_S:
            return False
        figures = await self._store.drop_figures(term, now, BATCH)
        figures = max(figures, await self._store.drop_task_figures(term, now, BATCH))
        hosts = await self._store.drop_hosts(term, now - KEEP_HOSTS_MS, BATCH)
        is_more = max(figures, hosts) >= BATCH
        self._hosts_pruned_at = None if is_more else now_mono
        return is_more

    async def _remove_chunks(self, term: int) -> None:
        """Remove the chunks on the list, which was written with the delete of the rows: a crash leaves no files."""
        while tasks := await self._store.unremoved_chunks(BATCH):
            if self._chunks is not None:
                await self._chunks.drop(tasks)
            await self._store.mark_chunks_removed(term, tasks)
            if len(tasks) < BATCH:
                return
