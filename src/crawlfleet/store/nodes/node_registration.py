"""Registration of a node, also repeated: one row by its join key, one by its handle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crawlfleet.errors import Conflict, NotAllowed, NotFound
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, NodeDescription
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus
from crawlfleet.ports.node_store import NewNode
from crawlfleet.store import row_codec, schema
from crawlfleet.store.admin.cluster_config import lock_installation
from crawlfleet.store.admin.tokens import spend_enrolment
from crawlfleet.store.engine.transaction import Tx
from crawlfleet.store.row_codec import RowCodec
from crawlfleet.store.tasks.idempotency import claim_key, store_answer
from crawlfleet.store.tasks.transaction_log import write_events

CLUSTERS = RowCodec(schema.cluster, Cluster)
# The stored answer is only a mark, without the secret: a node that repeats its request is found by its join key, and
# gets a new secret, which reaches it this time.
_REGISTERED = b"registered"
JOINED = "SELECT id FROM node WHERE join_key = $1"
NODE_BY_DEVICE = "SELECT id FROM node WHERE device_id = $1"
JOIN_KEY = "SELECT join_key FROM node WHERE id = $1 AND removed_at IS NULL"
LOCK_LEASE = "SELECT session, is_open, renewals FROM lease WHERE node = $1 LOCK_ROWS(lease)"
LOCK_NODES = "SELECT id, status, removed_at FROM node WHERE id AMONG($1) ORDER BY id LOCK_ROWS(node)"


def joined_columns(names: Iterable[str]) -> str:
    """Return the column list of a SELECT from `lease l` and `node n`."""
    return ", ".join(f"l.{name}" if name in schema.lease.columns else f"n.{name}" for name in names)


async def lock_description(tx: Tx, node: NodeId) -> dict[str, Any]:
    sql = "SELECT description FROM node WHERE id = $1 AND removed_at IS NULL LOCK_ROWS(node)"
    rows = await tx.fetch(sql, node)
    if not rows:
        raise NotFound(f"no node {node_text(node)}")
    return dict(row_codec.decode_json(rows[0][0]))


async def register_node(tx: Tx, node: NewNode, now: Instant) -> NodeId:
    if node.claim is not None and await claim_key(tx, node.claim, now) is None:
        await store_answer(tx, node.claim, _REGISTERED)
    if node.enrolment is not None and not await spend_enrolment(tx, node.enrolment, now, node.join_key):
        raise NotAllowed("this token is not valid")
    return await _insert_node(tx, node, now)


async def _insert_node(tx: Tx, node: NewNode, now: Instant) -> NodeId:
    description = node.description
    await _ensure_cluster(tx, description, now)
    body = row_codec.encode_json(description)
    row = {
        "id": node.id,
        "join_key": node.join_key,
        "device_id": description.device_id,
        "secret_hash": node.secret_hash,
        "description": body,
        "status": int(NodeStatus.PENDING),
        "health": int(Health.UNKNOWN),
        "health_details": b"{}",
        "created_at": now,
    }
    await tx.insert_new(schema.node, tuple(row), [tuple(row.values())])
    rows = await tx.fetch(JOINED, node.join_key)
    if not rows:
        if description.device_id is not None and await tx.fetch(NODE_BY_DEVICE, description.device_id):
            raise Conflict(f"device_id {description.device_id} is another node's")
        # The node that conflicted with this one was removed concurrently.
        return await _insert_node(tx, node, now)
    if rows[0][0] != node.id:
        return await _register_again(tx, rows[0][0], node, now)
    lease = {"node": node.id, "session": 0, "is_open": 0, "renewals": 0, "number": 0, "lease_ms": description.lease_ms}
    await tx.insert(schema.lease, tuple(lease), [tuple(lease.values())])
    shared = {"node": node.id, "name": description.name, "cluster": description.cluster}
    await write_events(tx, [EventBatch(Kind.NODE_REGISTERED, shared=shared)], now)
    return node.id


async def _register_again(tx: Tx, existing: NodeId, node: NewNode, now: Instant) -> NodeId:
    """Register a node again whose first answer was lost: it is the same node, with a new secret that reaches it this
    time."""
    await _lock_node(tx, existing)
    if not await tx.fetch(JOINED, node.join_key):
        # The node was removed concurrently: its join key is free again.
        return await _insert_node(tx, node, now)
    await _write_description(tx, existing, node.description)
    await tx.update(schema.node, ("id", "secret_hash"), [(existing, node.secret_hash)])
    return existing


async def replace_description(
    tx: Tx, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None
) -> None:
    await _ensure_cluster(tx, description, now)
    await _lock_node(tx, node)
    rows = await tx.fetch(JOIN_KEY, node)
    if not rows:
        raise NotFound(f"no node {node_text(node)}")
    if join_key not in (None, rows[0][0]):
        raise NotAllowed("a node registers only itself, and this join_key is not its own")
    await _write_description(tx, node, description)


async def _ensure_cluster(tx: Tx, description: NodeDescription, now: Instant) -> None:
    cluster = Cluster(description.cluster, ClusterStatus.ACTIVE, created_at=now, changed_at=now)
    await tx.insert_new(schema.cluster, CLUSTERS.columns, [CLUSTERS.to_row(cluster)])
    if description.device_id is not None:
        # Two nodes that claim one handle at once wait for each other here, so that the second gets the Conflict error.
        await lock_installation(tx)


async def _lock_node(tx: Tx, node: NodeId) -> None:
    await tx.fetch(LOCK_LEASE, node)
    await tx.fetch(LOCK_NODES, [node])


async def _write_description(tx: Tx, node: NodeId, description: NodeDescription) -> None:
    if description.device_id is not None:
        holder = await tx.fetch(NODE_BY_DEVICE, description.device_id)
        if holder and holder[0][0] != node:
            raise Conflict(f"device_id {description.device_id} is another node's")
    columns = ("id", "device_id", "description")
    await tx.update(schema.node, columns, [(node, description.device_id, row_codec.encode_json(description))])
    await tx.execute("UPDATE lease SET lease_ms = $2 WHERE node = $1 AND is_open = 0", node, description.lease_ms)
