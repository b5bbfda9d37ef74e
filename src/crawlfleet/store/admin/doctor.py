"""Bounded reads for the checks of an installation: settings of the database, and answers of hosts."""

from __future__ import annotations

from collections import Counter

import msgspec

from crawlfleet.model.host_stats import ALL_HOSTS, BLOCKED, HOUR_S, REQUESTS
from crawlfleet.model.instants import Instant
from crawlfleet.ports.doctor_store import POSTGRESQL, SQLITE, DatabaseCondition, HostAnswers
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx

_REVISION = "SELECT version_num FROM alembic_version"
_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit", "idle_in_transaction_session_timeout")
_READ_SETTINGS = "SELECT " + ", ".join(f"current_setting('{name}')" for name in _SETTINGS)
_STANDBYS = "SELECT application_name, sync_state FROM pg_stat_replication WHERE sync_state IS NOT NULL LIMIT 20"
HOST_HOURS = "SELECT host, figures FROM host_figure WHERE span_s = $1 AND at >= $2 ORDER BY at DESC LIMIT $3"
_decode_row = msgspec.msgpack.Decoder(list[int]).decode


class DoctorTables:
    _engine: QueryEngine

    async def database_condition(self) -> DatabaseCondition:
        is_sqlite = await self._engine.wall_clock() is None

        async def read_condition(tx: Tx) -> DatabaseCondition:
            revisions = [str(row[0]) for row in await tx.fetch(_REVISION)]
            revision = ", ".join(sorted(revisions))
            if is_sqlite:
                return DatabaseCondition(SQLITE, revision, {}, ())
            (values,) = await tx.fetch(_READ_SETTINGS)
            standbys = [(str(name), str(state)) for name, state in await tx.fetch(_STANDBYS)]
            return DatabaseCondition(POSTGRESQL, revision, dict(zip(_SETTINGS, values, strict=True)), standbys)

        return await self._engine.read(read_condition)

    async def host_answers(self, since: Instant, limit: int) -> list[HostAnswers]:
        begins_at = since - since % (HOUR_S * 1000)
        rows = await self._engine.read(lambda tx: tx.fetch(HOST_HOURS, HOUR_S, begins_at, limit))
        requests, blocked = Counter[str](), Counter[str]()
        for host, body in rows:
            figures = _decode_row(bytes(body))
            requests[host] += figures[REQUESTS] if figures else 0
            blocked[host] += figures[BLOCKED] if len(figures) > BLOCKED else 0
        return [HostAnswers(host, count, blocked[host]) for host, count in requests.most_common() if host != ALL_HOSTS]
