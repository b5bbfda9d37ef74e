"""Notices on their way: stored with the states that make them, taken by lease, sent, and marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from crawlfleet.model.ids import EPOCH_MS
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Notice
from crawlfleet.ports.alert_store import ChannelResult, NewNotice, NoticeStatus, SendResult, StoredNotice
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import Format, RowCodec

_decode_notice = msgspec.json.Decoder(Notice).decode
_encode = msgspec.json.Encoder().encode
_NOTICES = RowCodec(
    schema.notice, StoredNotice, columns={"notice": "body"}, formats={"notice": Format(_encode, _decode_notice)}
)
_TIME_SHIFT = 22
IS_DUE = f"status = {NoticeStatus.DUE:d}"
_AFTER_ALL = (1 << 63) - 1
_ENABLED = "EXISTS (SELECT 1 FROM alert_channel c WHERE c.name = notice.channel AND c.is_enabled = 1)"
DUE_NOTICES = (
    f"SELECT {_NOTICES.select} FROM notice WHERE {IS_DUE} AND due_at <= $1 "
    f"AND (leased_until IS NULL OR leased_until <= $1) AND {_ENABLED} ORDER BY id LIMIT $2 LOCK_ROWS(notice)"
)
NEXT_NOTICE = f"SELECT due_at FROM notice WHERE {IS_DUE} AND {_ENABLED} ORDER BY due_at LIMIT 1"
SENT_INSTANTS = (
    "SELECT tried_at FROM notice WHERE channel = $1 AND tried_at > $2 ORDER BY channel DESC, tried_at DESC LIMIT $3"
)
OLD_NOTICES = (
    f"DELETE FROM notice WHERE id IN (SELECT id FROM notice WHERE id < $1 AND NOT {IS_DUE} ORDER BY id LIMIT $2)"
)
OLD_SILENCES = "DELETE FROM silence WHERE id IN (SELECT id FROM silence WHERE until_at < $1 ORDER BY id LIMIT $2)"


class NoticeTables:
    _engine: QueryEngine

    async def lease_notices(self, now: Instant, lease_ms: int, limit: int) -> list[StoredNotice]:
        async def take_due(tx: Tx) -> list[StoredNotice]:
            due = _NOTICES.from_rows(await tx.fetch(DUE_NOTICES, now, limit))
            if due:
                sql = "UPDATE notice SET leased_until = $2 WHERE id AMONG($1)"
                await tx.execute(sql, [notice.id for notice in due], now + lease_ms)
            return [replace(notice, leased_until=now + lease_ms) for notice in due]

        return await self._engine.write(take_due)

    async def release_notices(self, notice_ids: Sequence[int], due_at: Instant) -> None:
        sql = f"UPDATE notice SET leased_until = NULL, due_at = $2 WHERE id AMONG($1) AND {IS_DUE}"
        if notice_ids:
            await self._engine.write(lambda tx: tx.execute(sql, list(notice_ids), due_at))

    async def record_sending(
        self, results: Sequence[SendResult], channels: Sequence[ChannelResult], now: Instant
    ) -> None:
        async def mark_notices(tx: Tx) -> None:
            mark = (
                "UPDATE notice SET status = $2, answer = $3, due_at = $4, leased_until = NULL, tries = tries + 1, "
                f"tried_at = $5 WHERE id = $1 AND {IS_DUE}"
            )
            for result in sorted(results):
                await tx.execute(mark, result.id, int(result.status), result.answer, result.due_at, now)
            for channel in channels:
                await _note_channel(tx, channel, now)

        await self._engine.write(mark_notices)

    async def merge_into_digest(self, digest: NewNotice, merged: Sequence[int], lease_ms: int, now: Instant) -> bool:
        async def replace_notices(tx: Tx) -> bool:
            rows = await tx.fetch(
                f"SELECT id FROM notice WHERE id AMONG($1) AND {IS_DUE} ORDER BY id LOCK_ROWS(notice)", list(merged)
            )
            if len(rows) < len(merged):
                return False
            sql = "UPDATE notice SET status = $2, merged_into = $3, leased_until = NULL WHERE id AMONG($1)"
            await tx.execute(sql, list(merged), int(NoticeStatus.MERGED), digest.id)
            await insert_notices(tx, [digest], now, now + lease_ms)
            return True

        return await self._engine.write(replace_notices)

    async def sent_instants(self, channel: str, since: Instant, limit: int) -> list[Instant]:
        rows = await self._engine.read(lambda tx: tx.fetch(SENT_INSTANTS, channel, since, limit))
        return [int(row[0]) for row in reversed(rows)]

    async def next_notice_at(self) -> Instant | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(NEXT_NOTICE))
        return int(rows[0][0]) if rows else None

    async def notice_page(
        self, limit: int, before: int | None = None, channel: str | None = None, status: NoticeStatus | None = None
    ) -> list[StoredNotice]:
        args: list[object] = [_AFTER_ALL if before is None else before, limit]
        where = "id < $1"
        for column, value in (("channel", channel), ("status", status)):
            if value is not None:
                args.append(int(value) if isinstance(value, int) else value)
                where += f" AND {column} = ${len(args)}"
        sql = f"SELECT {_NOTICES.select} FROM notice WHERE {where} ORDER BY id DESC LIMIT $2"
        return _NOTICES.from_rows(await self._engine.browse_rows(lambda tx: tx.fetch(sql, *args)))

    async def drop_old_notices(self, term: int, before: Instant, limit: int) -> int:
        async def delete_old(tx: Tx) -> int:
            oldest_id = max(0, before - EPOCH_MS) << _TIME_SHIFT
            notices = await tx.execute(OLD_NOTICES, oldest_id, limit)
            return notices + await tx.execute(OLD_SILENCES, before, limit)

        return await self._engine.write(delete_old, term)


async def insert_notices(
    tx: Tx, notices: Sequence[NewNotice], now: Instant, leased_until: Instant | None = None
) -> None:
    """Insert notices that are due now; with a lease, they are in the hands of the caller already."""
    if notices:
        rows: list[Row] = _NOTICES.to_rows(
            StoredNotice(new.id, new.channel, NoticeStatus.DUE, now, leased_until, 0, None, "", None, new.notice)
            for new in notices
        )
        await tx.insert(schema.notice, _NOTICES.columns, rows)


async def _note_channel(tx: Tx, result: ChannelResult, now: Instant) -> None:
    if result.is_delivered:
        sql = (
            "UPDATE alert_channel SET failures = 0, failing_since = NULL, last_answer = $2, last_sent_at = $3 "
            "WHERE name = $1"
        )
    else:
        sql = (
            "UPDATE alert_channel SET failures = failures + 1, failing_since = COALESCE(failing_since, $3), "
            "last_answer = $2 WHERE name = $1"
        )
    await tx.execute(sql, result.channel, result.answer, now)
    if result.disabled_why:
        sql = "UPDATE alert_channel SET is_enabled = 0, disabled_why = $2 WHERE name = $1"
        await tx.execute(sql, result.channel, result.disabled_why)
    if result.wait_until is not None:
        sql = f"UPDATE notice SET due_at = $2 WHERE channel = $1 AND {IS_DUE} AND due_at < $2"
        await tx.execute(sql, result.channel, result.wait_until)
