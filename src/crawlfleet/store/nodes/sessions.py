"""Sessions of nodes and their leases: opened, renewed, ended.

A lease belongs to a session. Its row carries a counter that every sync raises; a caller that wants to end a session
for silence names the count that it saw, and the row decides. A session that ended never opens again.

A transaction that needs both locks the lease before the node, so that no two transactions deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.model.task import DecideTransition, LiveTask
from crawlfleet.ports.node_store import LeaseRow, Renewal, Renewed
from crawlfleet.ports.task_store import Applied
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.nodes.node_health import clear_health, unavailable_event
from crawlfleet.store.nodes.node_registration import (
    LOCK_LEASE,
    LOCK_NODES,
    joined_columns,
    lock_description,
)
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.live_tasks import HELD_BY
from crawlfleet.store.tasks.transaction_log import write_events
from crawlfleet.store.tasks.transitions import Transition


class _LockedLease(NamedTuple):
    """A lease that is being renewed, with the values that its node receives."""

    node: NodeId
    session: int
    is_open: int
    number: int
    renewals: int
    status: int
    slots_wanted: int | None
    drain_by: Instant | None
    removed_at: Instant | None
    slots_measured: int | None
    follows_load: int | None
    granted: int | None
    departing: int


class _RenewedRow(NamedTuple):
    """Columns of `lease` that a renewal sets."""

    node: NodeId
    renewals: int
    number: int
    renewed_at: Instant
    measurement: bytes | None
    hosts: bytes | None
    departing: int


LOCK_LEASES = (
    f"SELECT {joined_columns(_LockedLease._fields)} "
    "FROM lease l JOIN node n ON n.id = l.node WHERE l.node AMONG($1) ORDER BY l.node LOCK_ROWS(l)"
)
_HELD = int(NodeStatus.MAINTENANCE)
_ONLINE = int(NodeStatus.ONLINE)
_WAKING = (NodeStatus.PENDING, NodeStatus.UNRESPONSIVE, NodeStatus.OFFLINE)


class SessionTables:
    _engine: Engine
    _lanes: LaneBook

    async def open_session(
        self,
        node: NodeId,
        slots: int,
        task_types: Sequence[str],
        decide: DecideTransition,
        now: Instant,
        *,
        after: int | None = None,
        is_departing: bool = False,
    ) -> tuple[int, Applied | None]:
        async def write_session(tx: Tx) -> tuple[int, Applied | None]:
            lease = await tx.fetch(LOCK_LEASE, node)
            description = await lock_description(tx, node)
            session: int = lease[0][0]
            if after is not None and session != after:
                return session, None
            transition = Transition(tx, self._lanes, now)
            await transition.change_held_tasks(node, decide)
            opened_description = description | {"slots": slots, "task_types": list(task_types)}
            await tx.update(schema.node, ("id", "description"), [(node, row_codec.encode_json(opened_description))])
            # Only here does a lease change its length: the node relies on the length it received at its last opening.
            opened = {
                "node": node,
                "session": session + 1,
                "is_open": 1,
                "renewals": 0,
                "number": 0,
                "lease_ms": description["lease_ms"],
                "renewed_at": now,
                "hosts": None,
                "granted": None,
                "departing": session + 1 if is_departing else 0,
            }
            await tx.update(schema.lease, tuple(opened), [tuple(opened.values())])
            for batch in await clear_health(tx, node, now, above=Health.HEALTHY):
                transition.tx_log.add_events(batch)
            return session + 1, await transition.write_all()

        return await self._engine.write(write_session)

    async def renew_leases(self, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
        async def renew_all(tx: Tx) -> list[Renewed]:
            return await _write_renewals(tx, renewals, now)

        return await self._engine.write(renew_all) if renewals else []

    async def end_session(
        self,
        node: NodeId,
        session: int,
        status: NodeStatus,
        decide: DecideTransition,
        now: Instant,
        *,
        renewals: int | None = None,
        term: int | None = None,
    ) -> Applied | None:
        async def close_session(tx: Tx) -> Applied | None:
            rows = await tx.fetch(LOCK_LEASE, node)
            if not rows or rows[0][:2] != (session, 1) or (renewals is not None and rows[0][2] != renewals):
                return None
            transition = Transition(tx, self._lanes, now)
            await transition.change_held_tasks(node, decide)
            await tx.execute("UPDATE lease SET is_open = 0 WHERE node = $1", node)
            # A node held by a person stays held, through restarts and lost leases, until a person releases it.
            sql = f"UPDATE node SET status = $2 WHERE id = $1 AND removed_at IS NULL AND status <> {_HELD}"
            await tx.execute(sql, node, int(status))
            kind = Kind.NODE_TIMEOUT if status is NodeStatus.UNRESPONSIVE else Kind.NODE_OFFLINE
            tasks = list(transition.applied.after)
            transition.tx_log.add_events(EventBatch(kind, shared={"node": node, "session": session, "tasks": tasks}))
            for batch in (*await clear_health(tx, node, now), unavailable_event(node, status.word)):
                transition.tx_log.add_events(batch)
            return await transition.write_all()

        return await self._engine.write(close_session, term)

    async def open_leases(self) -> list[LeaseRow]:
        sql = f"SELECT {', '.join(LeaseRow._fields)} FROM lease WHERE is_open = 1"
        return [LeaseRow._make(row) for row in await self._engine.read(lambda tx: tx.fetch(sql))]


async def _write_renewals(tx: Tx, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
    rows = await tx.fetch(LOCK_LEASES, sorted({renewal.node for renewal in renewals}))
    leases = {lease.node: lease for lease in map(_LockedLease._make, rows)}
    if waking := sorted(node for node, lease in leases.items() if lease.status in _WAKING):
        # These nodes are about to become online: read them again under a lock, since a person may be holding or
        # removing them concurrently.
        for node, status, removed_at in await tx.fetch(LOCK_NODES, waking):
            leases[node] = leases[node]._replace(status=status, removed_at=removed_at)
    renewed: dict[NodeId, _RenewedRow] = {}
    online: dict[NodeId, Row] = {}
    departed: list[NodeId] = []
    answers = []
    for renewal in renewals:
        lease = leases.get(renewal.node)
        if lease is None:
            answers.append(Renewed(renewal.node, False, False, NodeStatus.OFFLINE, None, None, is_removed=True))
            continue
        node, session = lease.node, lease.session
        is_ours = bool(lease.is_open) and session == renewal.session and lease.removed_at is None
        is_newest = is_ours and renewal.number > lease.number
        came_online = is_newest and lease.status in _WAKING
        began_departing = is_newest and renewal.is_departing and lease.departing != session
        if is_newest:
            lease = leases[node] = lease._replace(
                number=renewal.number,
                renewals=lease.renewals + 1,
                status=_ONLINE if came_online else lease.status,
                departing=session if renewal.is_departing else lease.departing,
            )
            renewed[node] = _RenewedRow(
                node=node,
                renewals=lease.renewals,
                number=renewal.number,
                renewed_at=now,
                measurement=renewal.measurement,
                hosts=renewal.hosts,
                departing=lease.departing,
            )
            if came_online:
                online[node] = (node, lease.status)
            if began_departing:
                departed.append(node)
        answers.append(
            Renewed(
                node,
                is_ours,
                is_newest,
                NodeStatus(lease.status),
                lease.slots_wanted,
                lease.drain_by,
                lease.removed_at is not None,
                came_online,
                slots_measured=lease.slots_measured,
                follows_load=bool(lease.follows_load),
                granted=lease.granted or 0,
                began_departing=began_departing,
            )
        )
    if renewed:
        await tx.update(schema.lease, _RenewedRow._fields, list(renewed.values()))
    if online:
        await tx.update(schema.node, ("id", "status"), list(online.values()))
        await write_events(tx, [EventBatch(Kind.NODE_ONLINE, {"node": list(online)})], now)
    if departed:
        await write_events(tx, [EventBatch(Kind.NODE_DRAINING, {"node": departed}, {"drain_by": None})], now)
    held: dict[NodeId, list[LiveTask]] = {node: [] for node in renewed}
    if renewed:
        for row in await tx.fetch(HELD_BY, list(renewed)):
            task = task_rows.live_task_from_row(row)
            held[task.node].append(task)
    return [answer._replace(held=held[answer.node]) if answer.is_newest else answer for answer in answers]
