"""Target hosts and the parts of their budgets.

Only the leader writes what is learned and who holds what; a person's limits are columns of their own, so that neither
ever overwrites the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from crawlfleet.model.evidence import EvidenceRow
from crawlfleet.model.host_budget import Backoff, Host, HostLimits, HostShare, Units
from crawlfleet.model.host_names import HostNews
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.host_store import GrantChange, Granted, HostFilter, HostLook, HostNote, SessionHosts
from crawlfleet.store import schema
from crawlfleet.store.admin.evidence import add_evidence
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.tasks.transaction_log import write_events

NOTES = 1_000
_HOST_COLUMNS = tuple(column.name for column in schema.host.columns)
_LEARNED = (
    "name",
    "crawl_delay_ms",
    "backoff_level",
    "backoff_until",
    "quiet_since",
    "backoff_reason",
    "requests",
    "refused",
    "blocked",
    "recent_milli",
    "counted_at",
)
_SHARE_COLUMNS = tuple(column.name for column in schema.host_share.columns)
_SELECT_SHARES = f"SELECT {', '.join(_SHARE_COLUMNS)} FROM host_share"
SESSION_HOSTS = (
    "SELECT node, session, is_open, lease_ms, hosts, granted FROM lease "
    "WHERE (is_open = 1 AND hosts IS NOT NULL) OR node IN (SELECT node FROM host_share)"
)
GRANTED = (
    f"SELECT l.node, l.session, l.granted, h.backoff_until, {', '.join(f's.{name}' for name in _SHARE_COLUMNS)} "
    "FROM lease l LEFT JOIN host_share s ON s.node = l.node AND s.session = l.session "
    "LEFT JOIN host h ON h.name = s.host WHERE l.node AMONG($1) ORDER BY s.id"
)
LOCK_GRANTED = "SELECT node, session FROM lease WHERE node AMONG($1) ORDER BY node LOCK_ROWS(lease)"
OLD_HOSTS = (
    "DELETE FROM host WHERE name IN (SELECT name FROM host WHERE set_at IS NULL AND COALESCE(counted_at, 0) < $1 "
    "AND backoff_until < $1 AND name NOT IN (SELECT host FROM host_share) LIMIT $2)"
)


class HostTables:
    _engine: QueryEngine

    async def note_hosts(self, notes: Sequence[HostNote]) -> None:
        if notes:
            await self._engine.write(lambda tx: _note(tx, notes))

    async def host_look(self, now: Instant) -> HostLook:
        async def work(tx: Tx) -> HostLook:
            sessions = [
                SessionHosts(node, session, bool(is_open), lease_ms, hosts and bytes(hosts), granted or 0)
                for node, session, is_open, lease_ms, hosts, granted in await tx.fetch(SESSION_HOSTS)
            ]
            sql = f"SELECT host, kind, span_ms, node, id FROM host_news ORDER BY id LIMIT {NOTES}"
            return HostLook(sessions, [HostNote(row[0], HostNews(row[1]), *row[2:]) for row in await tx.fetch(sql)])

        return await self._engine.read(work)

    async def all_shares(self) -> list[HostShare]:
        return [_share(row) for row in await self._engine.read(lambda tx: tx.fetch(_SELECT_SHARES))]

    async def put_grants(self, change: GrantChange, term: int, now: Instant) -> list[EvidenceRow]:
        async def work(tx: Tx) -> list[EvidenceRow]:
            if change.hosts:
                await tx.insert_new(schema.host, _HOST_COLUMNS, [_host_row(Host(one.name)) for one in change.hosts])
                await tx.update(schema.host, _LEARNED, [_learned_row(host) for host in change.hosts])
            if change.gone:
                await tx.execute("DELETE FROM host_share WHERE id AMONG($1)", change.gone)
            await tx.update(schema.host_share, _SHARE_COLUMNS, [_share_row(share) for share in change.shares])
            await tx.insert(schema.host_share, _SHARE_COLUMNS, [_share_row(share) for share in change.new_shares])
            await _set_versions(tx, change.versions)
            if change.taken:
                await tx.execute("DELETE FROM host_news WHERE id AMONG($1)", change.taken)
            if change.events:
                await write_events(tx, change.events, now)
            return await add_evidence(tx, change.evidence) if change.evidence else []

        return await self._engine.write(work, term)

    async def granted(self, nodes: Sequence[NodeId]) -> dict[NodeId, Granted]:
        rows = await self._engine.glance(lambda tx: tx.fetch(GRANTED, list(nodes)))
        found: dict[NodeId, Granted] = {}
        shares: dict[NodeId, list[tuple[HostShare, Instant]]] = {}
        for node, session, version, until, *share in rows:
            mine = shares.setdefault(node, [])
            found.setdefault(node, Granted(node, session, version or 0, mine))
            if share[0] is not None:
                mine.append((_share(share), until or 0))
        return found

    async def hosts(self, names: Sequence[str]) -> dict[str, Host]:
        sql = f"SELECT {', '.join(_HOST_COLUMNS)} FROM host WHERE name AMONG($1)"
        rows = await self._engine.glance(lambda tx: tx.fetch(sql, list(names)))
        return {row[0]: _host(row) for row in rows}

    async def list_hosts(self, where: HostFilter, now: Instant, limit: int, after: str | None = None) -> list[Host]:
        host = schema.host.c
        query = select(schema.host).order_by(host.name).limit(limit)
        if after is not None:
            query = query.where(host.name > after)
        if where.text:
            query = query.where(host.name.contains(where.text, autoescape=True))
        if where.is_backing_off is not None:
            query = query.where(host.backoff_until > now if where.is_backing_off else host.backoff_until <= now)
        if where.is_set is not None:
            query = query.where(host.set_at.is_not(None) if where.is_set else host.set_at.is_(None))
        return [_host(row) for row in await self._engine.query(query)]

    async def host_shares(self, host: str) -> list[HostShare]:
        sql = f"{_SELECT_SHARES} WHERE host = $1 ORDER BY id"
        return [_share(row) for row in await self._engine.read(lambda tx: tx.fetch(sql, host))]

    async def set_host(self, host: str, limits: HostLimits, by: str, now: Instant) -> Host:
        async def work(tx: Tx) -> Host:
            await tx.insert_new(schema.host, _HOST_COLUMNS, [_host_row(Host(host))])
            rate, delay_s = limits.rate, limits.delay_s
            columns = ("name", "rate_milli", "concurrency", "delay_ms", "set_by", "set_at")
            row = (
                host,
                None if rate is None else round(rate * 1000),
                limits.concurrency,
                None if delay_s is None else round(delay_s * 1000),
                *((by, now) if limits else (None, None)),
            )
            await tx.update(schema.host, columns, [row])
            await _note(tx, [HostNote(host, HostNews.CHANGED)])
            sql = f"SELECT {', '.join(_HOST_COLUMNS)} FROM host WHERE name = $1"
            return _host((await tx.fetch(sql, host))[0])

        return await self._engine.write(work)

    async def drop_hosts(self, term: int, before: Instant, limit: int) -> int:
        return await self._engine.write(lambda tx: tx.execute(OLD_HOSTS, before, limit), term)


async def _note(tx: Tx, notes: Sequence[HostNote]) -> None:
    rows = [(note.host, int(note.kind), note.span_ms, note.node) for note in notes]
    await tx.insert(schema.host_news, ("host", "kind", "span_ms", "node"), rows)


async def _set_versions(tx: Tx, versions: Sequence[tuple[NodeId, int, int]]) -> None:
    """Under a lock, taken in the order that renewals take it in: a session may be over by now."""
    if not versions:
        return
    newest: dict[NodeId, int] = dict(await tx.fetch(LOCK_GRANTED, [node for node, _, _ in versions]))
    rows = [(node, version) for node, session, version in versions if newest.get(node) == session]
    await tx.update(schema.lease, ("node", "granted"), rows)


def _host(row: Sequence[Any]) -> Host:
    (
        name,
        rate_milli,
        concurrency,
        delay_ms,
        set_by,
        set_at,
        crawl_delay_ms,
        level,
        until,
        quiet_since,
        reason,
        requests,
        refused,
        blocked,
        recent_milli,
        counted_at,
    ) = row
    limits = HostLimits(
        None if rate_milli is None else rate_milli / 1000, concurrency, None if delay_ms is None else delay_ms / 1000
    )
    return Host(
        name,
        limits,
        set_by,
        set_at,
        crawl_delay_ms,
        Backoff(level, until, quiet_since, reason),
        requests,
        refused,
        blocked,
        recent_milli,
        counted_at,
    )


def _host_row(host: Host) -> Row:
    learned = _learned_row(host)
    return (host.name, None, None, None, None, None, *learned[1:])


def _learned_row(host: Host) -> Row:
    back = host.backoff
    return (
        host.name,
        host.crawl_delay_ms,
        back.level,
        back.until,
        back.quiet_since,
        back.reason,
        host.requests,
        host.refused,
        host.blocked,
        host.recent_milli,
        host.counted_at,
    )


def _share(row: Sequence[Any]) -> HostShare:
    number, node, session, host, wanted, rate, concurrency, may_rate, may_concurrency, spacing_ms, cut, *counted = row
    units, may_use = Units(rate, concurrency), Units(may_rate, may_concurrency)
    requests, refused, blocked = counted
    return HostShare(number, node, session, host, wanted, units, may_use, spacing_ms, cut, (requests, refused, blocked))


def _share_row(share: HostShare) -> Row:
    return (
        share.id,
        share.node,
        share.session,
        share.host,
        share.wanted,
        *share.current,
        *share.may_use,
        share.spacing_ms,
        share.cut_version,
        *share.counted,
    )
