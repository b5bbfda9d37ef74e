"""Reports that this master is alive, with its own figures, and reads which other masters are.

Every master does so, not only the leader. The instant of a report is that of the database's clock, so that a reader
measures a silence by one clock only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from crawlfleet.control.loops.base import Loop
from crawlfleet.control.loops.leader import Leader
from crawlfleet.control.support.master_roster import MasterRoster
from crawlfleet.control.support.session_counter import SessionCounter
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity
from crawlfleet.model.instants import Instant
from crawlfleet.observe.daily_count import DailyCount
from crawlfleet.ports.broker import Broker, BrokerMemory
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore
from crawlfleet.ports.maintenance_store import RetentionStore

ProbeProcess = Callable[[], MasterFigures]
"""Function that measures what only the process knows: its address, memory, disks, event loop and broker."""


class MasterStore(LeadershipStore, RetentionStore, Protocol):
    """The part of the store that the reporter needs."""


class MasterReporter(Loop):
    name = "master_reporter"
    pause_s = 5.0

    def __init__(
        self,
        *,
        store: MasterStore,
        broker: Broker,
        clock: Clock,
        leader: Leader,
        roster: MasterRoster,
        identity: MasterIdentity,
        loops: Callable[[], Sequence[Loop]],
        probe: ProbeProcess,
        is_clock_real: bool,
        sessions: SessionCounter,
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._broker = broker
        self._leader = leader
        self._roster = roster
        self.identity = identity
        self._loops = loops
        self._probe = probe
        self._sessions = sessions
        self._is_clock_real = is_clock_real
        """Whether the clock is that of the system, which can be compared with the database's."""
        self._generation: str | None = None
        self._memory: BrokerMemory | None = None
        self._resets = DailyCount()

    async def run_once(self, now: Instant) -> object:
        offset_ms = await self._measure_clock_offset() if self._is_clock_real else None
        await self._look_at_broker(now)
        await self._store.record_master_beat(self.identity, self._collect_figures(offset_ms, now), now)
        self._roster.update(await self._store.list_masters(now))
        return None

    async def record_stop(self) -> None:
        """Take this master from the list, after it has stopped serving."""
        await self._store.record_master_stop(self.identity.boot)

    async def _look_at_broker(self, now: Instant) -> None:
        if self._broker.failure_reason is not None:
            return
        generation = await self._broker.load_generation()
        if self._generation is not None and generation != self._generation:
            self._resets.add_one(now)
        self._generation = generation
        self._memory = await self._broker.load_memory()

    def _collect_figures(self, offset_ms: int | None, now: Instant) -> MasterFigures:
        return replace(
            self._probe(),
            commit_p99_ms=self._store.commit_p99_ms(),
            loops={loop.name: loop.figures for loop in self._loops() if not loop.is_resting},
            broker_trouble=self._broker.failure_reason,
            broker_resets=self._resets.count_today(now),
            broker_memory_ratio=None if self._memory is None else self._memory.used_part,
            broker_eviction="" if self._memory is None else self._memory.eviction,
            leader_changes=self._leader.recent_changes,
            sessions=self._sessions.repeated_sessions(),
            clock_offset_ms=offset_ms,
        )

    async def _measure_clock_offset(self) -> int | None:
        """The wall clock minus the database's, which is taken to have been read half way."""
        before = self._clock.now()
        database = await self._store.database_clock()
        return None if database is None else (before + self._clock.now()) // 2 - database
