"""Schedules: stored, changed, read and deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select

from crawlfleet.errors import NotFound, OverLimit
from crawlfleet.model import limits
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import ScheduleId, schedule_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import Schedule, Tick
from crawlfleet.ports.record_page import RecordPage
from crawlfleet.ports.schedule_store import ScheduleAnswer, ScheduleFilter
from crawlfleet.ports.task_store import Claim
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import Format, RowCodec
from crawlfleet.store.tasks.idempotency import claim_key, store_answer
from crawlfleet.store.tasks.transaction_log import write_events

SCHEDULES = RowCodec(
    schema.schedule,
    Schedule,
    formats={"recent": Format(row_codec.encode_json, lambda body: tuple(row_codec.decode_json(body)))},
)
TICK_ROWS = RowCodec(schema.tick, Tick)
_REPORTED_COLUMNS = frozenset(SCHEDULES.columns) - {
    "anchor_at",
    "changed_at",
    "fired_until",
    "next_at",
    "due_at",
    "recent",
    "revision",
}
_LIST = SCHEDULES.select
SCHEDULE = f"SELECT {_LIST} FROM schedule WHERE id = $1"
LOCK_SCHEDULE = f"{SCHEDULE} LOCK_ROWS(schedule)"
COUNT_SCHEDULES = "SELECT COUNT(*) FROM schedule"
DUE_SCHEDULES = f"SELECT {_LIST} FROM schedule WHERE due_at <= $1 ORDER BY due_at LIMIT $2"
RELEASED_SCHEDULES = (
    f"SELECT {_LIST} FROM schedule WHERE held_at IS NOT NULL AND is_paused = 0 AND (held_for IS NULL "
    "OR NOT EXISTS (SELECT 1 FROM live WHERE live.id = schedule.held_for)) ORDER BY id LIMIT $1"
)
NEXT_DUE = "SELECT MIN(due_at) FROM schedule WHERE due_at IS NOT NULL"
TICKS = f"SELECT {TICK_ROWS.select} FROM tick WHERE schedule = $1 ORDER BY at DESC LIMIT $2"
# The position of a schedule never goes back, so that a tick does not need its row for ever to be fired only once. The
# last tick of a schedule stays: it shows people that the schedule works.
OLD_TICKS = (
    "SELECT schedule, at FROM tick t WHERE made_at < $1 AND ("
    "EXISTS (SELECT 1 FROM tick n WHERE n.schedule = t.schedule AND n.at > t.at) "
    "OR NOT EXISTS (SELECT 1 FROM schedule s WHERE s.id = t.schedule)) ORDER BY made_at LIMIT $2"
)
FORGET_TICKS = f"DELETE FROM tick WHERE (schedule, at) IN ({OLD_TICKS})"
ENDED_SCHEDULES = (
    "DELETE FROM schedule WHERE id IN (SELECT id FROM schedule WHERE next_at IS NULL AND held_at IS NULL "
    "AND is_paused = 0 AND fired_until < $1 AND changed_at < $1 ORDER BY fired_until LIMIT $2) "
    "AND next_at IS NULL AND held_at IS NULL AND is_paused = 0 AND fired_until < $1 AND changed_at < $1 RETURNING id"
)
_DELETE = "DELETE FROM schedule WHERE id = $1"


class ScheduleTables:
    _engine: QueryEngine

    async def add_schedule(self, make: Callable[[], Schedule], claim: Claim | None, now: Instant) -> ScheduleAnswer:
        async def insert_schedule(tx: Tx) -> ScheduleAnswer:
            if claim is not None and (stored_id := await claim_key(tx, claim, now)) is not None:
                return ScheduleAnswer(await lock_schedule(tx, int(stored_id)), is_replay=True)
            schedule = make()
            if (await tx.fetch(COUNT_SCHEDULES))[0][0] >= limits.SCHEDULES:
                raise OverLimit(f"there are {limits.SCHEDULES} schedules already")
            await tx.insert(schema.schedule, SCHEDULES.columns, [SCHEDULES.to_row(schedule)])
            if claim is not None:
                await store_answer(tx, claim, str(schedule.id).encode())
            await _write_event(tx, Kind.SCHEDULE_CREATED, schedule.id, now, task_type=schedule.task_type)
            return ScheduleAnswer(schedule)

        return await self._engine.write(insert_schedule)

    async def change_schedule(
        self, schedule: ScheduleId, change: Callable[[Schedule], Schedule], now: Instant
    ) -> Schedule:
        async def apply_change(tx: Tx) -> Schedule:
            have = await lock_schedule(tx, schedule)
            want = change(have)
            if want == have:
                return have
            want = replace(want, revision=have.revision + 1)
            old, new = SCHEDULES.to_row(have), SCHEDULES.to_row(want)
            await tx.update(schema.schedule, SCHEDULES.columns, [new])
            fields = [name for name, before, after in zip(SCHEDULES.columns, old, new, strict=True) if before != after]
            reported = [name for name in fields if name in _REPORTED_COLUMNS]
            await _write_event(tx, Kind.SCHEDULE_CHANGED, schedule, now, fields=reported, is_paused=want.is_paused)
            return want

        return await self._engine.write(apply_change)

    async def remove_schedule(self, schedule: ScheduleId, now: Instant) -> None:
        async def delete_schedule(tx: Tx) -> None:
            await lock_schedule(tx, schedule)
            await tx.execute(_DELETE, schedule)
            await _write_event(tx, Kind.SCHEDULE_REMOVED, schedule, now)

        await self._engine.write(delete_schedule)

    async def find_schedule(self, schedule: ScheduleId) -> Schedule | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(SCHEDULE, schedule))
        return SCHEDULES.from_row(rows[0]) if rows else None

    async def list_schedules(
        self, where: ScheduleFilter, limit: int, before: ScheduleId | None = None
    ) -> RecordPage[Schedule]:
        table = schema.schedule.c
        query = select(*SCHEDULES.selected)
        if where.project is not None:
            query = query.where(table.project == where.project)
        if where.task_type is not None:
            query = query.where(table.task_type == where.task_type)
        if where.is_paused is not None:
            query = query.where(table.is_paused == int(where.is_paused))
        if before is not None:
            query = query.where(table.id < before)
        page = await self._engine.read_page(query.order_by(table.id.desc()).limit(limit + 1), limit)
        return RecordPage(SCHEDULES.from_rows(page.rows), has_more=page.has_more)

    async def list_ticks(self, schedule: ScheduleId, limit: int) -> list[Tick]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(TICKS, schedule, limit))
        return TICK_ROWS.from_rows(rows)

    async def due_schedules(self, now: Instant, limit: int) -> list[Schedule]:
        async def read_due(tx: Tx) -> Sequence[Row]:
            due = list(await tx.fetch(DUE_SCHEDULES, now, limit))
            released = await tx.fetch(RELEASED_SCHEDULES, limit - len(due)) if len(due) < limit else []
            return list({row[0]: row for row in [*due, *released]}.values())

        # A `read`, not a `glance`: templates may be large, and many schedules are read at once.
        return SCHEDULES.from_rows(await self._engine.read(read_due))

    async def next_due(self) -> Instant | None:
        due_at: Instant | None = (await self._engine.read_by_key(lambda tx: tx.fetch(NEXT_DUE)))[0][0]
        return due_at


async def lock_schedule(tx: Tx, schedule: ScheduleId) -> Schedule:
    rows = await tx.fetch(LOCK_SCHEDULE, schedule)
    if not rows:
        raise NotFound(f"no schedule {schedule_text(schedule)}")
    return SCHEDULES.from_row(rows[0])


async def has_old_ticks(tx: Tx, before: Instant) -> bool:
    return bool(await tx.fetch(OLD_TICKS, before, 1))


async def forget_ticks(tx: Tx, before: Instant, limit: int) -> int:
    return await tx.execute(FORGET_TICKS, before, limit)


async def forget_ended_schedules(tx: Tx, before: Instant, limit: int, now: Instant) -> int:
    """Delete schedules that have had no tick left since before then."""
    ended = [row[0] for row in await tx.fetch(ENDED_SCHEDULES, before, limit)]
    if ended:
        shared = {"reason": "it had no run left"}
        await write_events(tx, [EventBatch(Kind.SCHEDULE_REMOVED, {"schedule": ended}, shared)], now)
    return len(ended)


async def _write_event(tx: Tx, kind: Kind, schedule: ScheduleId, now: Instant, **more: Any) -> None:
    await write_events(tx, [EventBatch(kind, shared={"schedule": schedule, **more})], now)
