"""Figures of target hosts: batches as nodes sent them, and minutes, hours and totals folded from them.

A batch and the newest batch number of its node are written together, under the row of that number, so that a batch
sent twice (even to two masters at once) is counted once. Only the leader folds: it deletes batches and adds them up in
one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from crawlfleet.model.host_stats import (
    ALL_HOSTS,
    HOSTS_MOST,
    HOUR_S,
    KEEP_MS,
    KEEP_TOTALS_MS,
    MINUTE_S,
    REQUESTS,
    TOTALS_MOST,
    Batch,
    Counted,
    Folded,
    add_row,
    empty_row,
    sum_rows,
)
from crawlfleet.model.instants import Instant
from crawlfleet.store import schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx

TOTAL = 0
"""Value of `span_s` for totals."""
HOLD_TOLD = "SELECT node, session, number FROM host_told WHERE node AMONG($1) ORDER BY node LOCK_ROWS(host_told)"
TAKE_BATCHES = (
    "DELETE FROM host_delta WHERE id IN (SELECT id FROM host_delta ORDER BY id LIMIT $1) RETURNING at, body, node"
)
STORED_FIGURES = "SELECT host, since_at, figures FROM host_figure WHERE span_s = $1 AND at = $2 AND host AMONG($3)"
COUNT = "SELECT COUNT(*) FROM host_figure WHERE span_s = $1 AND at = $2 AND host <> '*'"
REPLACED = "DELETE FROM host_figure WHERE span_s = $1 AND at = $2 AND host AMONG($3)"
LEAST_RECENT = (
    "DELETE FROM host_figure WHERE span_s = 0 AND at = 0 AND host IN (SELECT host FROM host_figure "
    "WHERE span_s = 0 AND at = 0 AND host <> '*' ORDER BY changed_at, host LIMIT $1)"
)
OLD = (
    "DELETE FROM host_figure WHERE span_s = $1 AND (host, at) IN "
    "(SELECT host, at FROM host_figure WHERE span_s = $1 AND at < $2 ORDER BY at LIMIT $3)"
)
OLD_TOTALS = (
    "DELETE FROM host_figure WHERE span_s = 0 AND at = 0 AND host IN "
    "(SELECT host FROM host_figure WHERE span_s = 0 AND at = 0 AND changed_at < $1 LIMIT $2)"
)
OF_HOST = "SELECT at, since_at, figures FROM host_figure WHERE host = $1 AND span_s = $2 AND at = 0"
HISTORY = (
    "SELECT at, span_s, figures FROM host_figure WHERE host = $1 AND span_s = $2 AND at >= $3 AND at < $4 "
    "ORDER BY at DESC LIMIT $5"
)
_COLUMNS = tuple(column.name for column in schema.host_figure.columns)
_Hosts = list[tuple[str, list[int]]]
_encode = msgspec.msgpack.Encoder().encode
_decode_hosts = msgspec.msgpack.Decoder(_Hosts).decode
_decode_row = msgspec.msgpack.Decoder(list[int]).decode


class HostFigureTables:
    _engine: QueryEngine

    async def add_figures(self, batches: Sequence[Batch], now: Instant) -> list[bool]:
        return await self._engine.write(lambda tx: _accept_batches(tx, batches, now)) if batches else []

    async def fold_figures(self, term: int, now: Instant, limit: int = 1_000) -> list[Folded]:
        async def fold_batches(tx: Tx) -> list[Folded]:
            rows = await tx.fetch(TAKE_BATCHES, limit)
            batches = [Folded(node, sent_at, _decode_hosts(bytes(body))) for sent_at, body, node in rows]
            for (span_s, starts_at), counted in sorted(_sum_batches(batches).items()):
                await _fold_span(tx, span_s, starts_at, counted, now)
            return batches

        return await self._engine.write(fold_batches, term)

    async def drop_figures(self, term: int, now: Instant, limit: int = 1_000) -> int:
        gone = await self._engine.write(lambda tx: tx.execute(OLD_TOTALS, now - KEEP_TOTALS_MS, limit), term)
        for span_s, keep_ms in KEEP_MS.items():
            args = (span_s, now - keep_ms, limit)
            gone += await self._engine.write(lambda tx, args=args: tx.execute(OLD, *args), term)  # type: ignore[misc]
        return gone

    async def host_total(self, host: str) -> Counted | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(OF_HOST, host, TOTAL))
        return Counted(rows[0][1], TOTAL, _decode_row(bytes(rows[0][2]))) if rows else None

    async def host_history(self, host: str, span_s: int, since: Instant, until: Instant, limit: int) -> list[Counted]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(HISTORY, host, span_s, since, until, limit))
        return [Counted(starts_at, span, _decode_row(bytes(figures))) for starts_at, span, figures in reversed(rows)]


async def _accept_batches(tx: Tx, batches: Sequence[Batch], now: Instant) -> list[bool]:
    nodes = sorted({batch.node for batch in batches})
    await tx.insert_new(schema.host_told, ("node", "session", "number"), [(node, 0, 0) for node in nodes])
    newest = {node: (session, number) for node, session, number in await tx.fetch(HOLD_TOLD, nodes)}
    accepted, rows = [], []
    for batch in batches:
        batch_number = (batch.session, batch.number)
        accepted.append(batch_number > newest[batch.node])
        if accepted[-1]:
            newest[batch.node] = batch_number
            rows.append((now, _encode(batch.hosts), batch.node))
    if rows:
        await tx.update(schema.host_told, ("node", "session", "number"), [(node, *newest[node]) for node in nodes])
        await tx.insert(schema.host_delta, ("at", "body", "node"), rows)
    return accepted


def _sum_batches(batches: Sequence[Folded]) -> dict[tuple[int, Instant], dict[str, list[int]]]:
    """Sum batches by span and its start, for each host and for all hosts. Hours and totals are summed from minutes:
    there are far fewer of them than batches."""
    sums: dict[tuple[int, Instant], dict[str, list[int]]] = defaultdict(lambda: defaultdict(empty_row))
    for batch in batches:
        minute = sums[MINUTE_S, batch.at - batch.at % (MINUTE_S * 1000)]
        for host, figures in batch.hosts:
            add_row(minute[host], figures)
    for (_, starts_at), minute in list(sums.items()):
        all_hosts = sum_rows(minute.values())
        minute[ALL_HOSTS] = all_hosts
        for key in ((HOUR_S, starts_at - starts_at % (HOUR_S * 1000)), (TOTAL, 0)):
            for host, figures in minute.items():
                add_row(sums[key][host], figures)
    return sums


async def _fold_span(tx: Tx, span_s: int, starts_at: Instant, counted: Mapping[str, list[int]], now: Instant) -> None:
    stored = {
        host: (since, figures)
        for host, since, figures in await tx.fetch(STORED_FIGURES, span_s, starts_at, list(counted))
    }
    new = sorted(counted.keys() - stored.keys() - {ALL_HOSTS}, key=lambda host: (-counted[host][REQUESTS], host))
    if span_s != TOTAL and new:
        new = new[: max(0, HOSTS_MOST[span_s] - await _count_hosts(tx, span_s, starts_at))]
    hosts = [*stored, *new] if ALL_HOSTS in stored else [*stored, *new, ALL_HOSTS]
    rows = []
    for host in hosts:
        since, figures = stored.get(host, (now, None))
        if figures is not None:
            add_row(counted[host], _decode_row(bytes(figures)))
        rows.append((host, span_s, starts_at, since, now, _encode(counted[host])))
    if stored:
        await tx.execute(REPLACED, span_s, starts_at, list(stored))
    await tx.insert(schema.host_figure, _COLUMNS, rows)
    if span_s == TOTAL and new and (over := await _count_hosts(tx, span_s, starts_at) - TOTALS_MOST) > 0:
        await tx.execute(LEAST_RECENT, over)


async def _count_hosts(tx: Tx, span_s: int, starts_at: Instant) -> int:
    return int((await tx.fetch(COUNT, span_s, starts_at))[0][0])
