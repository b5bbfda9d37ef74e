"""Elects the leader and keeps it.

The leader raises a counter every second. A challenger that has seen the same counter for three seconds, by its own
monotonic clock, takes the next term. A leader that could not raise it for as long steps down by itself; should it be
frozen instead, every write it tries after waking fails by its term.
"""

from __future__ import annotations

from collections import deque

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import Loop, log
from crawlfleet.errors import Unavailable
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeaderRow, LeadershipStore

SILENCE_S = 3.0
CHANGES_S = 3_600.0
MAX_CHANGES = 1_000


class Leader(Loop):
    name = "leader"
    pause_s = 1.0

    def __init__(self, *, store: LeadershipStore, clock: Clock, leadership: LeadershipState, holder: str) -> None:
        super().__init__(clock)
        self._store = store
        self._leadership = leadership
        self._holder = holder
        self._last_row: LeaderRow | None = None
        self._last_row_at = 0.0
        self._beat_at = 0.0
        self._newest_term: int | None = None
        self._changes: deque[float] = deque(maxlen=MAX_CHANGES)

    @property
    def recent_changes(self) -> int:
        """Number of times that another term was seen in the last hour, the first one after the start not counted."""
        since = self._clock.monotonic() - CHANGES_S
        return sum(1 for changed_at in self._changes if changed_at >= since)

    def _note_term(self, term: int) -> None:
        if self._newest_term is not None and term != self._newest_term:
            self._changes.append(self._clock.monotonic())
        self._newest_term = term

    async def run_once(self, now: Instant) -> object:
        term = self._leadership.term
        if term is not None:
            await self._renew_term(term)
        else:
            await self._watch_leader(now)
        return None

    async def resign(self) -> None:
        """Hand over at once: the next challenger need not wait."""
        term = self._leadership.term
        self._leadership.end_term()
        if term is not None:
            await self._store.resign(term)

    async def _renew_term(self, term: int) -> None:
        now_mono = self._clock.monotonic()
        try:
            is_ours = await self._store.record_beat(term)
        except Unavailable:
            if self._clock.monotonic() - self._beat_at >= SILENCE_S:
                self._step_down(term, "the store did not take a beat")
            raise
        if is_ours:
            self._beat_at = now_mono
            self._leadership.record_beat(now_mono, self._clock.monotonic() - now_mono)
        else:
            self._step_down(term, "another master leads")

    def _step_down(self, term: int, reason: str) -> None:
        log.warning("stepped_down", term=term, holder=self._holder, reason=reason)
        self._leadership.end_term(term)
        self._last_row = None

    async def _watch_leader(self, now: Instant) -> None:
        row = await self._store.read_leader()
        now_mono = self._clock.monotonic()
        if row.holder:
            self._note_term(row.term)
        if row.holder == self._holder:
            # Our campaign was committed though its answer was lost, or we stepped down and no other master followed:
            # the term is ours once the store accepts a beat.
            if await self._store.record_beat(row.term):
                self._start_term(row.term)
            return
        if row != self._last_row:
            self._last_row, self._last_row_at = row, now_mono
        if not row.holder or now_mono - self._last_row_at >= SILENCE_S:
            term = await self._store.campaign(self._holder, row, now)
            if term is not None:
                self._start_term(term)

    def _start_term(self, term: int) -> None:
        log.info("leads", term=term, holder=self._holder)
        self._note_term(term)
        self._beat_at = self._clock.monotonic()
        self._last_row = None
        self._leadership.start_term(term)
