"""Nodes and clusters: registered, held, read and removed. Their sessions and leases are in `sessions`.

A transaction that needs both locks the lease before the node, so that no two transactions deadlock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node, NodeDescription
from crawlfleet.model.status import Health, NodeStatus
from crawlfleet.ports.node_store import NewNode
from crawlfleet.ports.queue_store import PlacementView
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.transaction import Row, Tx
from crawlfleet.store.nodes.node_health import clear_health, unavailable_event
from crawlfleet.store.nodes.node_registration import (
    CLUSTERS,
    LOCK_LEASE,
    LOCK_NODES,
    NODE_BY_DEVICE,
    joined_columns,
    lock_description,
    register_node,
    replace_description,
)
from crawlfleet.store.nodes.pulls import read_open_pulls
from crawlfleet.store.projects.project_rows import PROJECTS, project_from_row
from crawlfleet.store.tasks.lanes import LaneBook
from crawlfleet.store.tasks.ready_tasks import QUEUES, READY_LANE_ENDS, READY_LANE_HEADS, queue_from_row
from crawlfleet.store.tasks.transaction_log import write_events


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


_SELECT_NODE = f"SELECT {joined_columns(_NodeRow._fields)} FROM node n JOIN lease l ON l.node = n.id"
_CHANGED_CLUSTERS = CLUSTERS.column_writer("name", "status", "description", "project", "changed_at")
_SELECT_CLUSTER = f"SELECT {CLUSTERS.select} FROM cluster"
NODE_BY_SECRET = "SELECT id FROM node WHERE secret_hash = $1"


class NodeTables:
    _engine: QueryEngine
    _lanes: LaneBook

    async def register_node(self, node: NewNode, now: Instant) -> NodeId:
        return await self._engine.write(lambda tx: register_node(tx, node, now))

    async def replace_description(
        self, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None
    ) -> None:
        await self._engine.write(lambda tx: replace_description(tx, node, description, now, join_key))

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

    async def set_maintenance(self, node: NodeId, drain_by: Instant | None, is_held: bool, now: Instant) -> bool:
        async def write_status(tx: Tx) -> bool:
            lease = await tx.fetch(LOCK_LEASE, node)
            rows = await tx.fetch(LOCK_NODES, [node])
            if not rows or rows[0][2] is not None:
                return False
            batches = [] if is_held else await clear_health(tx, node, now)
            if is_held:
                status, kind = NodeStatus.MAINTENANCE, Kind.NODE_DRAINING
                if rows[0][1] == NodeStatus.ONLINE:
                    batches.append(unavailable_event(node, status.word))
            elif rows[0][1] != NodeStatus.MAINTENANCE:
                if batches:
                    await write_events(tx, batches, now)
                return True
            elif lease[0][1]:
                status, kind = NodeStatus.ONLINE, Kind.NODE_ONLINE
            else:
                status, kind = NodeStatus.OFFLINE, Kind.NODE_OFFLINE
            sql = "UPDATE node SET status = $2, drain_by = $3 WHERE id = $1"
            await tx.execute(sql, node, int(status), drain_by if is_held else None)
            await write_events(tx, [EventBatch(kind, shared={"node": node, "drain_by": drain_by}), *batches], now)
            return True

        return await self._engine.write(write_status)

    async def unregister_node(self, node: NodeId, now: Instant) -> None:
        async def remove_node(tx: Tx) -> None:
            await lock_description(tx, node)
            # The keys of a removed node are free for a new node that uses them again.
            sql = (
                "UPDATE node SET status = $2, removed_at = $3, secret_hash = NULL, device_id = NULL, "
                "join_key = 'removed ' || id WHERE id = $1"
            )
            await tx.execute(sql, node, int(NodeStatus.OFFLINE), now)
            await tx.execute("DELETE FROM pull WHERE node = $1", node)
            removed = EventBatch(Kind.NODE_UNREGISTERED, shared={"node": node})
            await write_events(tx, [removed, unavailable_event(node, "removed")], now)

        await self._engine.write(remove_node)

    async def load_nodes(self, ids: Sequence[NodeId] | None = None) -> list[Node]:
        if ids is None:
            rows = await self._engine.read(lambda tx: tx.fetch(f"{_SELECT_NODE} WHERE n.removed_at IS NULL"))
        else:
            rows = await self._engine.read_by_key(
                lambda tx: tx.fetch(f"{_SELECT_NODE} WHERE n.id AMONG($1)", list(ids))
            )
        return [_node_from_row(row) for row in rows]

    async def browse_nodes(self) -> list[Node]:
        rows = await self._engine.browse_rows(lambda tx: tx.fetch(f"{_SELECT_NODE} WHERE n.removed_at IS NULL"))
        # A thousand of them would hold up the event loop for a while.
        return await asyncio.to_thread(lambda: [_node_from_row(row) for row in rows])

    async def placement_view(self) -> PlacementView:
        async def read_view(tx: Tx) -> PlacementView:
            nodes = [_node_from_row(row) for row in await tx.fetch(f"{_SELECT_NODE} WHERE n.removed_at IS NULL")]
            clusters = [_cluster_from_row(row) for row in await tx.fetch(_SELECT_CLUSTER)]
            queues = [queue_from_row(row) for row in await tx.fetch(QUEUES)]
            projects = [project_from_row(row) for row in await tx.fetch(PROJECTS)]
            heads = {row[0]: row[1] for row in await tx.fetch(READY_LANE_HEADS)}
            lifo = [queue.name for queue in queues if queue.is_lifo]
            ends = {row[0]: row[1] for row in await tx.fetch(READY_LANE_ENDS, lifo) if row[1]} if lifo else {}
            return PlacementView(nodes, clusters, queues, projects, heads, ends, await read_open_pulls(tx))

        return await self._engine.read(read_view)

    async def list_clusters(self) -> list[Cluster]:
        return [_cluster_from_row(row) for row in await self._engine.read(lambda tx: tx.fetch(_SELECT_CLUSTER))]

    async def put_cluster(self, cluster: Cluster, now: Instant) -> None:
        async def write_cluster(tx: Tx) -> None:
            existing = await tx.fetch(f"{_SELECT_CLUSTER} WHERE name = $1", cluster.name)
            new = replace(cluster, created_at=now, changed_at=now)
            await tx.insert_new(schema.cluster, CLUSTERS.columns, [CLUSTERS.to_row(new)])
            await tx.update(schema.cluster, _CHANGED_CLUSTERS.columns, [_CHANGED_CLUSTERS.to_row(new)])
            if not existing or _cluster_from_row(existing[0]) != cluster:
                shared = {"cluster": cluster.name, "status": cluster.status.word, "project": cluster.project}
                await write_events(tx, [EventBatch(Kind.CLUSTER_CHANGED, shared=shared)], now)

        await self._engine.write(write_cluster)


def _cluster_from_row(row: Row) -> Cluster:
    cluster = CLUSTERS.from_row(row)
    return replace(cluster, created_at=cluster.created_at or None, changed_at=cluster.changed_at or None)


def _node_from_row(row: Row) -> Node:
    stored = _NodeRow._make(row)
    # Derived, not stored: what a session reported ends with the session, and what a person decided stays as it was.
    is_departing = bool(stored.is_open) and stored.departing == stored.session
    status = NodeStatus(stored.status)
    if is_departing and status is NodeStatus.ONLINE:
        status = NodeStatus.MAINTENANCE
    return Node(
        id=stored.id,
        description=row_codec.decode_description(stored.description),
        status=status,
        health=Health(stored.health),
        health_details=row_codec.decode_details(stored.health_details),
        health_at=stored.health_at,
        session=stored.session,
        is_session_open=bool(stored.is_open),
        renewals=stored.renewals,
        renewed_at=stored.renewed_at,
        measurement=row_codec.decode_measurement(stored.measurement),
        slots_wanted=stored.slots_wanted,
        drain_by=stored.drain_by,
        created_at=stored.created_at,
        removed_at=stored.removed_at,
        slots_measured=stored.slots_measured,
        follows_load=bool(stored.follows_load),
        granted=stored.granted or 0,
        is_departing=is_departing,
    )
