"""Target hosts and the grants of their budgets.

Only the leader writes what is learned about a host and the grants of nodes; a person's limits are columns of their
own, so that neither ever overwrites the other's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select

from crawlfleet.model.evidence import EvidenceRow
from crawlfleet.model.host import Host, HostLimits, HostNoteKind, HostShare, Units
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.ports.host_store import GrantChange, Granted, HostFilter, HostLook, HostNote, SessionHosts
from crawlfleet.store import schema
from crawlfleet.store.admin.evidence import add_evidence
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.row_codec import Format, RowCodec
from crawlfleet.store.tasks.transaction_log import write_events

NOTES = 1_000
_THOUSANDTHS = Format(lambda value: round(value * 1000), lambda value: value / 1000)
HOSTS = RowCodec(
    schema.host,
    Host,
    columns={
        "limits.rate": "rate_milli",
        "limits.delay_s": "delay_ms",
        "backoff.level": "backoff_level",
        "backoff.until": "backoff_until",
        "backoff.reason": "backoff_reason",
    },
    formats={"limits.rate": _THOUSANDTHS, "limits.delay_s": _THOUSANDTHS},
)
_SET = HOSTS.column_writer("name", "rate_milli", "concurrency", "delay_ms", "set_by", "set_at")
"""Columns of the limits that a person sets for a host."""
_LEARNED = HOSTS.column_writer("name", *(name for name in HOSTS.columns if name not in _SET.columns))


class _ShareRow(NamedTuple):
    """A row of `host_share`."""

    id: int
    node: NodeId
    session: int
    host: str
    wanted: int | None
    rate: int
    concurrency: int
    may_rate: int
    may_concurrency: int
    spacing_ms: int
    cut_version: int
    requests: int
    refused: int
    blocked: int


_SHARE_COLUMNS = _ShareRow._fields
_NOTES = RowCodec(schema.host_news, HostNote)
_NEW_NOTES = _NOTES.column_writer(*(name for name in _NOTES.columns if name != "id"))
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

    async def add_host_notes(self, notes: Sequence[HostNote]) -> None:
        if notes:
            await self._engine.write(lambda tx: _insert_notes(tx, notes))

    async def host_look(self, now: Instant) -> HostLook:
        async def read_look(tx: Tx) -> HostLook:
            sessions = [
                SessionHosts(node, session, bool(is_open), lease_ms, hosts and bytes(hosts), granted or 0)
                for node, session, is_open, lease_ms, hosts, granted in await tx.fetch(SESSION_HOSTS)
            ]
            sql = f"SELECT {_NOTES.select} FROM host_news ORDER BY id LIMIT {NOTES}"
            return HostLook(sessions, _NOTES.from_rows(await tx.fetch(sql)))

        return await self._engine.read(read_look)

    async def all_shares(self) -> list[HostShare]:
        return [_share_from_row(row) for row in await self._engine.read(lambda tx: tx.fetch(_SELECT_SHARES))]

    async def put_grants(self, change: GrantChange, term: int, now: Instant) -> list[EvidenceRow]:
        async def write_grants(tx: Tx) -> list[EvidenceRow]:
            if change.hosts:
                new = HOSTS.to_rows(Host(host.name) for host in change.hosts)
                await tx.insert_new(schema.host, HOSTS.columns, new)
                await tx.update(schema.host, _LEARNED.columns, _LEARNED.to_rows(change.hosts))
            if change.gone:
                await tx.execute("DELETE FROM host_share WHERE id AMONG($1)", change.gone)
            await tx.update(schema.host_share, _SHARE_COLUMNS, [_row_from_share(share) for share in change.shares])
            await tx.insert(schema.host_share, _SHARE_COLUMNS, [_row_from_share(share) for share in change.new_shares])
            await _set_versions(tx, change.versions)
            if change.taken:
                await tx.execute("DELETE FROM host_news WHERE id AMONG($1)", change.taken)
            if change.events:
                await write_events(tx, change.events, now)
            return await add_evidence(tx, change.evidence) if change.evidence else []

        return await self._engine.write(write_grants, term)

    async def load_grants(self, nodes: Sequence[NodeId]) -> dict[NodeId, Granted]:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(GRANTED, list(nodes)))
        by_node: dict[NodeId, Granted] = {}
        shares: dict[NodeId, list[tuple[HostShare, Instant]]] = {}
        for node, session, version, until, *share in rows:
            node_shares = shares.setdefault(node, [])
            by_node.setdefault(node, Granted(node, session, version or 0, node_shares))
            if share[0] is not None:
                node_shares.append((_share_from_row(share), until or 0))
        return by_node

    async def load_hosts(self, names: Sequence[str]) -> dict[str, Host]:
        sql = f"SELECT {HOSTS.select} FROM host WHERE name AMONG($1)"
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(sql, list(names)))
        return {host.name: host for host in HOSTS.from_rows(rows)}

    async def list_hosts(self, where: HostFilter, now: Instant, limit: int, after: str | None = None) -> list[Host]:
        host = schema.host.c
        query = select(*HOSTS.selected).order_by(host.name).limit(limit)
        if after is not None:
            query = query.where(host.name > after)
        if where.text:
            query = query.where(host.name.contains(where.text, autoescape=True))
        if where.is_backing_off is not None:
            query = query.where(host.backoff_until > now if where.is_backing_off else host.backoff_until <= now)
        if where.is_set is not None:
            query = query.where(host.set_at.is_not(None) if where.is_set else host.set_at.is_(None))
        return HOSTS.from_rows(await self._engine.run_query(query))

    async def host_shares(self, host: str) -> list[HostShare]:
        sql = f"{_SELECT_SHARES} WHERE host = $1 ORDER BY id"
        return [_share_from_row(row) for row in await self._engine.read(lambda tx: tx.fetch(sql, host))]

    async def set_host(self, host: str, limits: HostLimits, by: str, now: Instant) -> Host:
        async def write_limits(tx: Tx) -> Host:
            await tx.insert_new(schema.host, HOSTS.columns, [HOSTS.to_row(Host(host))])
            limited = Host(host, limits, set_by=by, set_at=now) if limits else Host(host)
            await tx.update(schema.host, _SET.columns, [_SET.to_row(limited)])
            await _insert_notes(tx, [HostNote(host, HostNoteKind.CHANGED)])
            sql = f"SELECT {HOSTS.select} FROM host WHERE name = $1"
            return HOSTS.from_row((await tx.fetch(sql, host))[0])

        return await self._engine.write(write_limits)

    async def drop_hosts(self, term: int, before: Instant, limit: int) -> int:
        return await self._engine.write(lambda tx: tx.execute(OLD_HOSTS, before, limit), term)


async def _insert_notes(tx: Tx, notes: Sequence[HostNote]) -> None:
    await tx.insert(schema.host_news, _NEW_NOTES.columns, _NEW_NOTES.to_rows(notes))


async def _set_versions(tx: Tx, versions: Sequence[tuple[NodeId, int, int]]) -> None:
    """Set the newest grant version of sessions, under a lock that is taken in the same order as by renewals: a session
    may be over by now."""
    if not versions:
        return
    newest: dict[NodeId, int] = dict(await tx.fetch(LOCK_GRANTED, [node for node, _, _ in versions]))
    rows = [(node, version) for node, session, version in versions if newest.get(node) == session]
    await tx.update(schema.lease, ("node", "granted"), rows)


def _share_from_row(row: Sequence[Any]) -> HostShare:
    stored = _ShareRow._make(row)
    return HostShare(
        id=stored.id,
        node=stored.node,
        session=stored.session,
        host=stored.host,
        wanted=stored.wanted,
        current=Units(stored.rate, stored.concurrency),
        may_use=Units(stored.may_rate, stored.may_concurrency),
        spacing_ms=stored.spacing_ms,
        cut_version=stored.cut_version,
        counted=(stored.requests, stored.refused, stored.blocked),
    )


def _row_from_share(share: HostShare) -> _ShareRow:
    requests, refused, blocked = share.counted
    return _ShareRow(
        id=share.id,
        node=share.node,
        session=share.session,
        host=share.host,
        wanted=share.wanted,
        rate=share.current.rate,
        concurrency=share.current.concurrency,
        may_rate=share.may_use.rate,
        may_concurrency=share.may_use.concurrency,
        spacing_ms=share.spacing_ms,
        cut_version=share.cut_version,
        requests=requests,
        refused=refused,
        blocked=blocked,
    )
