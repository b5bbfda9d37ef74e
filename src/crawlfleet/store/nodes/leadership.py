"""Leadership: one row whose key is the term of the leader; and a row for each start of a master, with its beats."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity, MasterRecord
from crawlfleet.model.instants import Instant
from crawlfleet.ports.leadership_store import KEEP_SILENT_MS, MAX_MASTERS_LISTED, LeaderRow
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.tasks.transaction_log import write_events

_SELECT = f"SELECT {', '.join(LeaderRow._fields)} FROM leader"


_COLUMNS = ("boot", "name", "started_at", "version", "address", "seen_at", "figures")
_LIST = f"SELECT {', '.join(_COLUMNS)} FROM master WHERE seen_at > 0 ORDER BY seen_at DESC, boot DESC LIMIT $1"
_BEAT = "UPDATE master SET version = $2, address = $3, seen_at = $4, figures = $5 WHERE boot = $1"
# The newest start stays: SQLite would give its number to the next one.
_DROP_SILENT = (
    "DELETE FROM master WHERE seen_at < $1 AND boot <> $2 AND boot < (SELECT MAX(newest.boot) FROM master newest)"
)
_encode_figures = msgspec.msgpack.Encoder().encode
# Figures of a newer version have fields that this one does not know: they are ignored.
_decode_figures = msgspec.msgpack.Decoder(MasterFigures).decode


class _MasterRow(NamedTuple):
    boot: int
    name: str
    started_at: Instant
    version: str
    address: str
    seen_at: Instant
    figures: bytes | None


class LeadershipTables:
    _engine: QueryEngine

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
        seen_at = await self._database_time(now)

        async def insert_master(tx: Tx) -> int:
            sql = "INSERT INTO master (name, started_at, seen_at) VALUES ($1, $2, $3) RETURNING boot"
            return int((await tx.fetch(sql, name, now, seen_at))[0][0])

        return await self._engine.write(insert_master)

    async def record_master_beat(
        self, master: MasterIdentity, figures: MasterFigures, now: Instant, *, keep_silent_ms: int = KEEP_SILENT_MS
    ) -> None:
        seen_at = await self._database_time(now)
        body = _encode_figures(figures)

        async def write_beat(tx: Tx) -> None:
            if not await tx.execute(_BEAT, master.boot, master.version, master.address, seen_at, body):
                # Removed as silent, though it was only frozen, or the clock of the database jumped.
                row = (master.boot, master.name, master.started_at, master.version, master.address, seen_at, body)
                await tx.insert_new(schema.master, _COLUMNS, [row])
            await tx.execute(_DROP_SILENT, seen_at - keep_silent_ms, master.boot)

        await self._engine.write(write_beat)

    async def record_master_stop(self, boot: int) -> None:
        sql = "UPDATE master SET seen_at = 0 WHERE boot = $1"
        await self._engine.write(lambda tx: tx.execute(sql, boot))

    async def list_masters(self, now: Instant) -> list[MasterRecord]:
        read_at = await self._database_time(now)
        rows = await self._engine.read(lambda tx: tx.fetch(_LIST, MAX_MASTERS_LISTED))
        return [_record_from_row(_MasterRow(*row), read_at) for row in rows]

    async def _database_time(self, now: Instant) -> Instant:
        time = await self._engine.wall_clock()
        return now if time is None else time


def _record_from_row(row: _MasterRow, read_at: Instant) -> MasterRecord:
    identity = MasterIdentity(row.boot, row.name, row.started_at, row.version, row.address)
    figures = MasterFigures() if row.figures is None else _decode_figures(bytes(row.figures))
    return MasterRecord(identity, row.seen_at, max(0, read_at - row.seen_at), figures)
