"""Keeps the id slot of this start of a master.

The store records up to when the slot is used, a little ahead of time. A later start that gets the slot goes on behind
that instant, also when the wall clock was set back; and it gets the slot that was silent the longest, never one of a
master that runs. A master that was frozen so long that its slot was given away gets another one.
"""

from __future__ import annotations

from crawlfleet.control.loops.base import Loop, log
from crawlfleet.model.ids import IdFactory
from crawlfleet.model.instants import Instant
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore

AHEAD_MS = 60_000


class IdSlotKeeper(Loop):
    name = "id_keeper"
    pause_s = 10.0

    def __init__(self, *, store: LeadershipStore, clock: Clock, ids: IdFactory, boot: int) -> None:
        super().__init__(clock)
        self._store = store
        self._ids = ids
        self._boot = boot

    async def run_once(self, now: Instant) -> object:
        until = max(now, self._ids.newest_at) + AHEAD_MS
        if not await self._store.keep_id_slot(self._ids.slot, self._boot, until):
            held = await self._store.take_id_slot(self._boot, until)
            log.warning("id_slot_lost", lost=self._ids.slot, taken=held.slot)
            self._ids.use_slot(held)
        return None
