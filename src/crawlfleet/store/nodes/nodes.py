"""Nodes, their sessions and leases.

A lease belongs to a session. Its row carries a counter that every sync raises; a caller that wants to end a session
for silence names the count that it saw, and the row decides. A session that ended never opens again.

A transaction that needs both locks the lease before the node, so that no two transactions deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from crawlfleet.errors import NotFound
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node, NodeDescription
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.model.task import DecideTransition, LiveTask
from crawlfleet.ports.node_store import LeaseRow, NewNode, Renewal, Renewed
from crawlfleet.ports.queue_store import PlacementView
from crawlfleet.ports.task_store import Applied
from crawlfleet.store import row_codec, schema, task_rows
from crawlfleet.store.engine.transaction import Engine, Row, Tx
from crawlfleet.store.nodes.node_health import clear_health, unavailable
from crawlfleet.store.nodes.node_registration import (
    CLUSTERS,
    LOCK_LEASE,
    LOCK_NODES,
    NODE_BY_DEVICE,
    announced,
    registered,
)
from crawlfleet.store.projects.project_rows import PROJECTS, described
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.live_tasks import HELD_BY
from crawlfleet.store.tasks.ready_tasks import QUEUES, READY_LANE_ENDS, READY_LANE_HEADS, queue_from_row
from crawlfleet.store.tasks.transaction_log import write_events
from crawlfleet.store.tasks.transitions import Transition


class _NodeRow(NamedTuple):
    """A node and its lease, as one row."""

    id: NodeId
    description: bytes
    status: int
    health: int
    health_details: bytes
    health_at: Instant | None
    session: int
    is_open: int
    renewals: int
    renewed_at: Instant | None
    measurement: bytes | None
    slots_wanted: int | None
    drain_by: Instant | None
    created_at: Instant
    removed_at: Instant | None
    slots_measured: int | None
    follows_load: int | None
    granted: int | None
    departing: int


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


def _columns(row: type[_NodeRow] | type[_LockedLease]) -> str:
    """Return the column list of a SELECT from `lease l` and `node n`."""
    return ", ".join(f"l.{name}" if name in schema.lease.columns else f"n.{name}" for name in row._fields)


_SELECT_NODE = f"SELECT {_columns(_NodeRow)} FROM node n JOIN lease l ON l.node = n.id"
_CHANGED_CLUSTERS = CLUSTERS.column_writer("name", "status", "description", "project", "changed_at")
_SELECT_CLUSTER = f"SELECT {CLUSTERS.select} FROM cluster"
LOCK_LEASES = (
    f"SELECT {_columns(_LockedLease)} "
    "FROM lease l JOIN node n ON n.id = l.node WHERE l.node AMONG($1) ORDER BY l.node LOCK_ROWS(l)"
)
NODE_BY_SECRET = "SELECT id FROM node WHERE secret_hash = $1"
_HELD = int(NodeStatus.MAINTENANCE)
_ONLINE = int(NodeStatus.ONLINE)
_WAKING = (NodeStatus.PENDING, NodeStatus.UNRESPONSIVE, NodeStatus.OFFLINE)


class NodeTables:
    _engine: Engine
    _lanes: LaneBook

    async def register_node(self, node: NewNode, now: Instant) -> NodeId:
        return await self._engine.write(lambda tx: registered(tx, node, now))

    async def replace_description(
        self, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None
    ) -> None:
        await self._engine.write(lambda tx: announced(tx, node, description, now, join_key))

    async def secret_hash(self, node: NodeId) -> str | None:
        sql = "SELECT secret_hash FROM node WHERE id = $1 AND removed_at IS NULL"
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(sql, node))
        return rows[0][0] if rows else None

    async def node_by_secret(self, secret_hash: str) -> NodeId | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(NODE_BY_SECRET, secret_hash))
        return rows[0][0] if rows else None

    async def node_by_device(self, device_id: str) -> NodeId | None:
        rows = await self._engine.read_by_key(lambda tx: tx.fetch(NODE_BY_DEVICE, device_id))
        return rows[0][0] if rows else None

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
        async def work(tx: Tx) -> tuple[int, Applied | None]:
            lease = await tx.fetch(LOCK_LEASE, node)
            description = await _described(tx, node)
            session: int = lease[0][0]
            if after is not None and session != after:
                return session, None
            transition = Transition(tx, self._lanes, now)
            await transition.change_held_tasks(node, decide)
            said = description | {"slots": slots, "task_types": list(task_types)}
            await tx.update(schema.node, ("id", "description"), [(node, row_codec.encode_json(said))])
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

        return await self._engine.write(work)

    async def renew_leases(self, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
        async def work(tx: Tx) -> list[Renewed]:
            return await _renew(tx, renewals, now)

        return await self._engine.write(work) if renewals else []

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
        async def work(tx: Tx) -> Applied | None:
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
            for batch in (*await clear_health(tx, node, now), unavailable(node, status.word)):
                transition.tx_log.add_events(batch)
            return await transition.write_all()

        return await self._engine.write(work, term)

    async def open_leases(self) -> list[LeaseRow]:
        sql = f"SELECT {', '.join(LeaseRow._fields)} FROM lease WHERE is_open = 1"
        return [LeaseRow._make(row) for row in await self._engine.read(lambda tx: tx.fetch(sql))]

    async def set_maintenance(self, node: NodeId, drain_by: Instant | None, is_held: bool, now: Instant) -> bool:
        async def work(tx: Tx) -> bool:
            lease = await tx.fetch(LOCK_LEASE, node)
            rows = await tx.fetch(LOCK_NODES, [node])
            if not rows or rows[0][2] is not None:
                return False
            news = [] if is_held else await clear_health(tx, node, now)
            if is_held:
                status, kind = NodeStatus.MAINTENANCE, Kind.NODE_DRAINING
                if rows[0][1] == NodeStatus.ONLINE:
                    news.append(unavailable(node, status.word))
            elif rows[0][1] != NodeStatus.MAINTENANCE:
                if news:
                    await write_events(tx, news, now)
                return True
            elif lease[0][1]:
                status, kind = NodeStatus.ONLINE, Kind.NODE_ONLINE
            else:
                status, kind = NodeStatus.OFFLINE, Kind.NODE_OFFLINE
            sql = "UPDATE node SET status = $2, drain_by = $3 WHERE id = $1"
            await tx.execute(sql, node, int(status), drain_by if is_held else None)
            await write_events(tx, [EventBatch(kind, shared={"node": node, "drain_by": drain_by}), *news], now)
            return True

        return await self._engine.write(work)

    async def unregister_node(self, node: NodeId, now: Instant) -> None:
        async def work(tx: Tx) -> None:
            await _described(tx, node)
            # The keys of a removed node are free for a new node that uses them again.
            sql = (
                "UPDATE node SET status = $2, removed_at = $3, secret_hash = NULL, device_id = NULL, "
                "join_key = 'removed ' || id WHERE id = $1"
            )
            await tx.execute(sql, node, int(NodeStatus.OFFLINE), now)
            removed = EventBatch(Kind.NODE_UNREGISTERED, shared={"node": node})
            await write_events(tx, [removed, unavailable(node, "removed")], now)

        await self._engine.write(work)

    async def load_nodes(self, ids: Sequence[NodeId] | None = None) -> list[Node]:
        if ids is None:
            rows = await self._engine.read(lambda tx: tx.fetch(f"{_SELECT_NODE} WHERE n.removed_at IS NULL"))
        else:
            rows = await self._engine.read_by_key(
                lambda tx: tx.fetch(f"{_SELECT_NODE} WHERE n.id AMONG($1)", list(ids))
            )
        return [_node(row) for row in rows]

    async def placement_view(self) -> PlacementView:
        async def work(tx: Tx) -> PlacementView:
            nodes = [_node(row) for row in await tx.fetch(f"{_SELECT_NODE} WHERE n.removed_at IS NULL")]
            clusters = [_cluster(row) for row in await tx.fetch(_SELECT_CLUSTER)]
            queues = [queue_from_row(row) for row in await tx.fetch(QUEUES)]
            projects = [described(row) for row in await tx.fetch(PROJECTS)]
            heads = {row[0]: row[1] for row in await tx.fetch(READY_LANE_HEADS)}
            lifo = [queue.name for queue in queues if queue.is_lifo]
            ends = {row[0]: row[1] for row in await tx.fetch(READY_LANE_ENDS, lifo) if row[1]} if lifo else {}
            return PlacementView(nodes, clusters, queues, projects, heads, ends)

        return await self._engine.read(work)

    async def list_clusters(self) -> list[Cluster]:
        return [_cluster(row) for row in await self._engine.read(lambda tx: tx.fetch(_SELECT_CLUSTER))]

    async def put_cluster(self, cluster: Cluster, now: Instant) -> None:
        async def work(tx: Tx) -> None:
            known = await tx.fetch(f"{_SELECT_CLUSTER} WHERE name = $1", cluster.name)
            new = replace(cluster, created_at=now, changed_at=now)
            await tx.insert_new(schema.cluster, CLUSTERS.columns, [CLUSTERS.to_row(new)])
            await tx.update(schema.cluster, _CHANGED_CLUSTERS.columns, [_CHANGED_CLUSTERS.to_row(new)])
            if not known or _cluster(known[0]) != cluster:
                shared = {"cluster": cluster.name, "status": cluster.status.word, "project": cluster.project}
                await write_events(tx, [EventBatch(Kind.CLUSTER_CHANGED, shared=shared)], now)

        await self._engine.write(work)


async def _renew(tx: Tx, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
    rows = await tx.fetch(LOCK_LEASES, sorted({renewal.node for renewal in renewals}))
    found = {lease.node: lease for lease in map(_LockedLease._make, rows)}
    if waking := sorted(node for node, lease in found.items() if lease.status in _WAKING):
        # These nodes are about to become online: read them again under a lock, since a person may be holding or
        # removing them concurrently.
        for node, status, removed_at in await tx.fetch(LOCK_NODES, waking):
            found[node] = found[node]._replace(status=status, removed_at=removed_at)
    renewed: dict[NodeId, _RenewedRow] = {}
    online: dict[NodeId, Row] = {}
    departed: list[NodeId] = []
    answers = []
    for renewal in renewals:
        lease = found.get(renewal.node)
        if lease is None:
            answers.append(Renewed(renewal.node, False, False, NodeStatus.OFFLINE, None, None, is_removed=True))
            continue
        node, session = lease.node, lease.session
        is_ours = bool(lease.is_open) and session == renewal.session and lease.removed_at is None
        is_newest = is_ours and renewal.number > lease.number
        came_online = is_newest and lease.status in _WAKING
        began_departing = is_newest and renewal.is_departing and lease.departing != session
        if is_newest:
            lease = found[node] = lease._replace(
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


async def _described(tx: Tx, node: NodeId) -> dict[str, Any]:
    sql = "SELECT description FROM node WHERE id = $1 AND removed_at IS NULL LOCK_ROWS(node)"
    rows = await tx.fetch(sql, node)
    if not rows:
        raise NotFound(f"no node {node_text(node)}")
    return dict(row_codec.decode_json(rows[0][0]))


def _cluster(row: Row) -> Cluster:
    cluster = CLUSTERS.from_row(row)
    return replace(cluster, created_at=cluster.created_at or None, changed_at=cluster.changed_at or None)


def _node(row: Row) -> Node:
    kept = _NodeRow._make(row)
    # Derived, not stored: what a session reported ends with the session, and what a person decided stays as it was.
    is_departing = bool(kept.is_open) and kept.departing == kept.session
    status = NodeStatus(kept.status)
    if is_departing and status is NodeStatus.ONLINE:
        status = NodeStatus.MAINTENANCE
    return Node(
        id=kept.id,
        description=row_codec.decode_description(kept.description),
        status=status,
        health=Health(kept.health),
        health_details=row_codec.decode_details(kept.health_details),
        health_at=kept.health_at,
        session=kept.session,
        is_session_open=bool(kept.is_open),
        renewals=kept.renewals,
        renewed_at=kept.renewed_at,
        measurement=row_codec.decode_measurement(kept.measurement),
        slots_wanted=kept.slots_wanted,
        drain_by=kept.drain_by,
        created_at=kept.created_at,
        removed_at=kept.removed_at,
        slots_measured=kept.slots_measured,
        follows_load=bool(kept.follows_load),
        granted=kept.granted or 0,
        is_departing=is_departing,
    )
