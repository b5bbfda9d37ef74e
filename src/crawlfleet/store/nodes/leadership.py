"""Leadership: one row whose key is the term of the leader."""

from __future__ import annotations

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.instants import Instant
from crawlfleet.ports.leadership_store import LeaderRow
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.transaction_log import write_events

_SELECT = f"SELECT {', '.join(LeaderRow._fields)} FROM leader"


class LeadershipTables:
    _engine: Engine

    async def read_leader(self) -> LeaderRow:
        return LeaderRow._make((await self._engine.read_by_key(lambda tx: tx.fetch(_SELECT)))[0])

    async def campaign(self, holder: str, seen: LeaderRow, now: Instant) -> int | None:
        async def raise_term(tx: Tx) -> int | None:
            sql = (
                "UPDATE leader SET term = term + 1, holder = $1, beats = 0, since_at = $2 "
                "WHERE term = $3 AND beats = $4 AND holder = $5"
            )
            if await tx.execute(sql, holder, now, seen.term, seen.beats, seen.holder) != 1:
                return None
            shared = {"term": seen.term + 1, "master": holder}
            await write_events(tx, [EventBatch(Kind.LEADER_ELECTED, shared=shared)], now)
            return seen.term + 1

        return await self._engine.write(raise_term)

    async def record_beat(self, term: int) -> bool:
        sql = "UPDATE leader SET beats = beats + 1 WHERE term = $1 AND holder <> ''"
        return await self._engine.write(lambda tx: tx.execute(sql, term)) == 1

    async def resign(self, term: int) -> None:
        sql = "UPDATE leader SET holder = '', beats = beats + 1 WHERE term = $1"
        await self._engine.write(lambda tx: tx.execute(sql, term))

    async def register_master(self, name: str, now: Instant) -> int:
        async def insert_master(tx: Tx) -> int:
            sql = "INSERT INTO master (name, started_at) VALUES ($1, $2) RETURNING boot"
            return int((await tx.fetch(sql, name, now))[0][0])

        return await self._engine.write(insert_master)
