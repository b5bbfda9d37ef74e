"""The states of alerts and what people configure: rules, channels, silences, acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from crawlfleet.errors import Conflict, NotFound, OverLimit
from crawlfleet.model.alerts.alert import AlertChannel, AlertGroup, AlertState, Silence
from crawlfleet.model.instants import Instant
from crawlfleet.model.notice import Language
from crawlfleet.ports.alert_store import (
    CHANNELS_MAX,
    RULES_MAX,
    SILENCES_MAX,
    AlertBook,
    AlertChanges,
    AlertKey,
    RuleChange,
)
from crawlfleet.ports.leadership_store import LeaderRow
from crawlfleet.store import schema
from crawlfleet.store.admin.cluster_config import lock_installation
from crawlfleet.store.alerts.notices import IS_DUE, insert_notices
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.row_codec import JSON_OBJECT, Format, RowCodec

_RULES = RowCodec(schema.alert_rule, RuleChange, columns={"values": "body"}, formats={"values": JSON_OBJECT})
_SILENCES = RowCodec(schema.silence, Silence, formats={"matchers": JSON_OBJECT})
_CHANNELS = RowCodec(
    schema.alert_channel,
    AlertChannel,
    formats={"fields": JSON_OBJECT, "language": Format(str, Language)},
)
_STATE_COLUMNS = ("key", "body")
_GROUP_COLUMNS = ("key", "due_at", "sent_at")
_ACKNOWLEDGED = ("acknowledged_at", "acknowledged_by", "acknowledged_why")
STATES = (
    f"SELECT s.body, {', '.join(f'a.{name}' for name in _ACKNOWLEDGED)} "
    "FROM alert_state s LEFT JOIN acknowledgement a ON a.key = s.key"
)
_LOCK_STATE = "SELECT body FROM alert_state WHERE key = $1 LOCK_ROWS(alert_state)"
# Locked: two masters that notice the same silence must not both write.
_SAME_LEADER = "SELECT term FROM leader WHERE term = $1 AND beats = $2 AND holder = $3 LOCK_ROWS(leader)"
_decode_state = msgspec.json.Decoder(AlertState).decode
_encode = msgspec.json.Encoder().encode


class AlertTables:
    _engine: QueryEngine

    async def load_alerts(self, now: Instant) -> AlertBook:
        async def read_book(tx: Tx) -> AlertBook:
            groups = await tx.fetch(f"SELECT {', '.join(_GROUP_COLUMNS)} FROM alert_group")
            rules = await tx.fetch(f"SELECT {_RULES.select} FROM alert_rule ORDER BY name")
            silences = await tx.fetch(f"SELECT {_SILENCES.select} FROM silence WHERE until_at > $1 ORDER BY id", now)
            channels = await tx.fetch(f"SELECT {_CHANNELS.select} FROM alert_channel ORDER BY name")
            return AlertBook(
                {state.key: state for state in map(_state_from_row, await tx.fetch(STATES))},
                {group.key: group for group in map(_group_from_row, groups)},
                _RULES.from_rows(rules),
                _SILENCES.from_rows(silences),
                _CHANNELS.from_rows(channels),
            )

        return await self._engine.read(read_book)

    async def record_alerts(self, changes: AlertChanges, now: Instant, term: int) -> None:
        await self._engine.write(lambda tx: _write_changes(tx, changes, now), term)

    async def record_unled_alerts(self, changes: AlertChanges, now: Instant, silent: LeaderRow) -> bool:
        async def write_if_silent(tx: Tx) -> bool:
            if not await tx.fetch(_SAME_LEADER, silent.term, silent.beats, silent.holder):
                return False
            first = changes.states[0]
            rows = await tx.fetch(_LOCK_STATE, _text_key(first.key))
            if rows and _decode_state(rows[0][0]).status is first.status:
                return False
            await _write_changes(tx, changes, now)
            return True

        return await self._engine.write(write_if_silent)

    async def acknowledge_alert(self, rule: str, scope: str, by: str, why: str, now: Instant) -> AlertState:
        key = _text_key((rule, scope))

        async def write_word(tx: Tx) -> AlertState:
            rows = await tx.fetch(_LOCK_STATE, key)
            if not rows:
                raise NotFound(f"no alert {rule} of {scope}")
            state = _decode_state(rows[0][0])
            if not state.status.is_active:
                raise Conflict(f"{rule} of {scope} does not fire: it is {state.status.word}")
            await tx.execute("DELETE FROM acknowledgement WHERE key = $1", key)
            await tx.insert(schema.acknowledgement, ("key", *_ACKNOWLEDGED), [(key, now, by, why)])
            return replace(state, acknowledged_at=now, acknowledged_by=by, acknowledged_why=why)

        return await self._engine.write(write_word)

    async def put_rule_change(self, change: RuleChange) -> None:
        await self._engine.write(
            lambda tx: _put_row(tx, "alert_rule", _RULES, change.name, change, RULES_MAX, "changed alert rules")
        )

    async def drop_rule_change(self, name: str) -> bool:
        sql = "DELETE FROM alert_rule WHERE name = $1"
        return await self._engine.write(lambda tx: tx.execute(sql, name)) > 0

    async def put_channel(self, channel: AlertChannel) -> None:
        async def write_channel(tx: Tx) -> None:
            await _put_row(tx, "alert_channel", _CHANNELS, channel.name, channel, CHANNELS_MAX, "channels")
            # A person mended it: what waited is sent at once, not hours later.
            sql = f"UPDATE notice SET due_at = $2 WHERE channel = $1 AND {IS_DUE} AND due_at > $2"
            await tx.execute(sql, channel.name, channel.changed_at)

        await self._engine.write(write_channel)

    async def drop_channel(self, name: str) -> bool:
        async def delete_channel(tx: Tx) -> bool:
            await tx.execute(f"DELETE FROM notice WHERE channel = $1 AND {IS_DUE}", name)
            return await tx.execute("DELETE FROM alert_channel WHERE name = $1", name) > 0

        return await self._engine.write(delete_channel)

    async def add_silence(self, silence: Silence) -> None:
        async def insert_silence(tx: Tx) -> None:
            await lock_installation(tx)
            rows = await tx.fetch("SELECT COUNT(*) FROM silence WHERE until_at > $1", silence.created_at)
            if rows[0][0] >= SILENCES_MAX:
                raise OverLimit(f"{SILENCES_MAX} silences are in force: end one first", retry_after_s=60)
            await tx.insert(schema.silence, _SILENCES.columns, [_SILENCES.to_row(silence)])

        await self._engine.write(insert_silence)

    async def end_silence(self, silence_id: int, now: Instant) -> Silence:
        async def cut_silence(tx: Tx) -> Silence:
            sql = "UPDATE silence SET until_at = CASE WHEN until_at > $2 THEN $2 ELSE until_at END WHERE id = $1"
            rows = await tx.fetch(f"{sql} RETURNING {_SILENCES.select}", silence_id, now)
            if not rows:
                raise NotFound(f"no silence {silence_id}")
            return _SILENCES.from_row(rows[0])

        return await self._engine.write(cut_silence)

    async def list_silences(self, limit: int) -> list[Silence]:
        sql = f"SELECT {_SILENCES.select} FROM silence ORDER BY id DESC LIMIT $1"
        return _SILENCES.from_rows(await self._engine.browse_rows(lambda tx: tx.fetch(sql, limit)))


async def _write_changes(tx: Tx, changes: AlertChanges, now: Instant) -> None:
    await _replace_states(tx, changes.states, changes.forgotten)
    await _replace_groups(tx, changes.groups, changes.forgotten_groups)
    await insert_notices(tx, changes.notices, now)


async def _replace_states(tx: Tx, states: Iterable[AlertState], forgotten: Iterable[AlertKey]) -> None:
    rows = {_text_key(state.key): state for state in states}
    gone = {*rows, *map(_text_key, forgotten)}
    if not gone:
        return
    await tx.execute("DELETE FROM alert_state WHERE key AMONG($1)", sorted(gone))
    over = [key for key in gone if key not in rows or not rows[key].status.is_active]
    if over:
        # An acknowledgement ends with the alert that it is about.
        await tx.execute("DELETE FROM acknowledgement WHERE key AMONG($1)", sorted(over))
    if rows:
        body_rows: list[Row] = [(key, _encode(_without_word(state))) for key, state in sorted(rows.items())]
        await tx.insert(schema.alert_state, _STATE_COLUMNS, body_rows)


async def _replace_groups(tx: Tx, groups: Iterable[AlertGroup], forgotten: Iterable[AlertKey]) -> None:
    rows: dict[str, Row] = {_text_key(group.key): (group.due_at, group.sent_at) for group in groups}
    gone = {*rows, *map(_text_key, forgotten)}
    if gone:
        await tx.execute("DELETE FROM alert_group WHERE key AMONG($1)", sorted(gone))
    if rows:
        await tx.insert(schema.alert_group, _GROUP_COLUMNS, [(key, *row) for key, row in sorted(rows.items())])


async def _put_row(tx: Tx, table: str, codec: RowCodec[Any], name: str, record: Any, limit: int, what: str) -> None:
    await lock_installation(tx)
    await tx.execute(f"DELETE FROM {table} WHERE name = $1", name)
    if (await tx.fetch(f"SELECT COUNT(*) FROM {table}"))[0][0] >= limit:
        raise OverLimit(f"there are {limit} {what}, which is the limit: remove one first", retry_after_s=60)
    await tx.insert(codec.table, codec.columns, [codec.to_row(record)])


def _text_key(key: AlertKey) -> str:
    # The name of a rule has no space.
    return f"{key[0]} {key[1]}"


def _without_word(state: AlertState) -> AlertState:
    return replace(state, acknowledged_at=None, acknowledged_by="", acknowledged_why="")


def _state_from_row(row: Row) -> AlertState:
    state = _decode_state(row[0])
    if row[1] is None:
        return state
    return replace(state, acknowledged_at=row[1], acknowledged_by=row[2], acknowledged_why=row[3])


def _group_from_row(row: Row) -> AlertGroup:
    rule, _, kind = row[0].partition(" ")
    return AlertGroup(rule, kind, row[1], row[2])
