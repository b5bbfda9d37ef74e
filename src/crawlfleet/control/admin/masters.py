"""Reads for people which masters there are, and which of them leads."""

from __future__ import annotations

from typing import NamedTuple

from crawlfleet.model.installation.master import MasterRecord, present_masters
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.leadership_store import LeadershipStore


class MasterReport(NamedTuple):
    record: MasterRecord
    is_leader: bool


class MasterReader:
    def __init__(self, *, store: LeadershipStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list_masters(self) -> list[MasterReport]:
        """Return the masters that are alive, and silent ones that were not started again; the newest start first."""
        records = present_masters(await self._store.list_masters(self._clock.now()))
        leader = await self._store.read_leader()
        return [MasterReport(record, record.identity.holder == leader.holder) for record in records]
