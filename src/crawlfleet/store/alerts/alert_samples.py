"""Bounded reads for alert rules: hosts that block, ticks that were left out, causes of dead letters, runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from crawlfleet.model.host_stats import ALL_HOSTS, BLOCKED, MINUTE_S, REQUESTS
from crawlfleet.model.ids import ScheduleId, schedule_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import TickStatus
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.alert_store import HostBlocks, LeftOutTick, ScheduleRuns
from crawlfleet.store.composites.schedule_firing import MISSED
from crawlfleet.store.engine.transaction import Engine, Row, Tx

HOST_MINUTES = "SELECT host, figures FROM host_figure WHERE span_s = $1 AND at >= $2 ORDER BY at DESC LIMIT $3"
BACKING_OFF = (
    "SELECT name, backoff_level, backoff_reason FROM host WHERE backoff_level >= $1 AND backoff_until > $2 "
    "ORDER BY name LIMIT $3"
)
LEFT_OUT_TICKS = (
    "SELECT t.schedule, s.name, t.at, t.reason FROM tick t JOIN schedule s ON s.id = t.schedule "
    f"WHERE t.status IN ({TickStatus.SKIPPED:d}, {TickStatus.REFUSED:d}) AND t.made_at > $1 "
    f"AND (t.status = {TickStatus.REFUSED:d} OR t.reason = '{MISSED}') ORDER BY t.made_at DESC LIMIT $2"
)
LATE_SCHEDULES = "SELECT id, name, due_at FROM schedule WHERE due_at < $1 ORDER BY due_at LIMIT $2"
NEWEST_CAUSES = "SELECT cause FROM dead_letter WHERE task > 0 ORDER BY task DESC LIMIT $1"
NEXT_SCHEDULES = "SELECT id, name FROM schedule WHERE id > $1 ORDER BY id LIMIT $2"
_THESE_SCHEDULES = "SELECT id, name FROM schedule WHERE id AMONG($1) ORDER BY id"
SCHEDULE_RUNS = (
    f"SELECT d.metrics FROM tick t JOIN done d ON d.id = t.task WHERE t.schedule = $1 "
    f"AND d.status = {TaskStatus.COMPLETED:d} ORDER BY t.at DESC LIMIT $2"
)
_HOSTS_PER_MINUTE = 301
_decode_row = msgspec.msgpack.Decoder(list[int]).decode


class AlertSampleTables:
    _engine: Engine

    async def blocked_hosts(self, since: Instant, now: Instant, level: int, limit: int) -> list[HostBlocks]:
        minutes = (now - since) // (MINUTE_S * 1000) + 1

        async def read_hosts(tx: Tx) -> tuple[Sequence[Row], Sequence[Row]]:
            figures = await tx.fetch(HOST_MINUTES, MINUTE_S, since, minutes * _HOSTS_PER_MINUTE)
            return figures, await tx.fetch(BACKING_OFF, level, now, limit)

        figures, backing_off = await self._engine.read(read_hosts)
        requests, blocked = Counter[str](), Counter[str]()
        for host, body in figures:
            if host != ALL_HOSTS:
                row = _decode_row(bytes(body))
                requests[host] += row[REQUESTS]
                blocked[host] += row[BLOCKED] if len(row) > BLOCKED else 0
        levels = {name: (number, reason) for name, number, reason in backing_off}
        return [
            HostBlocks(host, requests[host], blocked[host], *levels.get(host, (0, "")))
            for host in sorted({*requests, *levels})
        ]

    async def left_out_ticks(self, since: Instant, late_before: Instant, limit: int) -> list[LeftOutTick]:
        async def read_ticks(tx: Tx) -> list[LeftOutTick]:
            left_out = await tx.fetch(LEFT_OUT_TICKS, since, limit)
            late = await tx.fetch(LATE_SCHEDULES, late_before, limit)
            return [
                *(
                    LeftOutTick(number, _shown(name, number), run_at, reason or "")
                    for number, name, run_at, reason in left_out
                ),
                *(LeftOutTick(number, _shown(name, number), due, "it is late") for number, name, due in late),
            ]

        return await self._engine.read(read_ticks)

    async def recent_causes(self, limit: int) -> list[tuple[str, int]]:
        rows = await self._engine.read(lambda tx: tx.fetch(NEWEST_CAUSES, limit))
        return Counter(str(row[0]) for row in rows).most_common()

    async def schedule_runs(self, after: ScheduleId, schedules: int, runs: int) -> list[ScheduleRuns]:
        async def read_next(tx: Tx) -> list[ScheduleRuns]:
            return await _read_runs(tx, await tx.fetch(NEXT_SCHEDULES, after, schedules), runs)

        return await self._engine.read(read_next)

    async def runs_of_schedules(self, schedules: Sequence[ScheduleId], runs: int) -> list[ScheduleRuns]:
        async def read_these(tx: Tx) -> list[ScheduleRuns]:
            return await _read_runs(tx, await tx.fetch(_THESE_SCHEDULES, list(schedules)), runs)

        return await self._engine.read(read_these) if schedules else []


async def _read_runs(tx: Tx, schedules: Sequence[Row], runs: int) -> list[ScheduleRuns]:
    found_runs = []
    for number, name in schedules:
        rows = await tx.fetch(SCHEDULE_RUNS, number, runs)
        metrics = [None if row[0] is None else bytes(row[0]) for row in rows]
        found_runs.append(ScheduleRuns(number, _shown(name, number), metrics))
    return found_runs


def _shown(name: str | None, schedule: ScheduleId) -> str:
    return name or schedule_text(schedule)
