"""Registration of a node, also repeated: one row by its join key, one by its handle."""

from __future__ import annotations

from crawlfleet.errors import Conflict, NotAllowed, NotFound
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, NodeDescription
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus
from crawlfleet.ports.node_store import NewNode
from crawlfleet.store import row_codec, schema
from crawlfleet.store.admin.cluster_config import lock_installation
from crawlfleet.store.admin.tokens import enrolled
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


async def registered(tx: Tx, node: NewNode, now: Instant) -> NodeId:
    if node.claim is not None and await claim_key(tx, node.claim, now) is None:
        await store_answer(tx, node.claim, _REGISTERED)
    if node.enrolment is not None and not await enrolled(tx, node.enrolment, now, node.join_key):
        raise NotAllowed("this token is not valid")
    return await _registered(tx, node, now)


async def _registered(tx: Tx, node: NewNode, now: Instant) -> NodeId:
    said = node.description
    await _make_room(tx, said, now)
    body = row_codec.encode_json(said)
    row = {
        "id": node.id,
        "join_key": node.join_key,
        "device_id": said.device_id,
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
        if said.device_id is not None and await tx.fetch(NODE_BY_DEVICE, said.device_id):
            raise Conflict(f"device_id {said.device_id} is another node's")
        # The node that conflicted with this one was removed concurrently.
        return await _registered(tx, node, now)
    if rows[0][0] != node.id:
        return await _registered_again(tx, rows[0][0], node, now)
    lease = {"node": node.id, "session": 0, "is_open": 0, "renewals": 0, "number": 0, "lease_ms": said.lease_ms}
    await tx.insert(schema.lease, tuple(lease), [tuple(lease.values())])
    shared = {"node": node.id, "name": said.name, "cluster": said.cluster}
    await write_events(tx, [EventBatch(Kind.NODE_REGISTERED, shared=shared)], now)
    return node.id


async def _registered_again(tx: Tx, known: NodeId, node: NewNode, now: Instant) -> NodeId:
    """Register a node again whose first answer was lost: it is the same node, with a new secret that reaches it this
    time."""
    await _lock(tx, known)
    if not await tx.fetch(JOINED, node.join_key):
        # The node was removed concurrently: its join key is free again.
        return await _registered(tx, node, now)
    await _describe(tx, known, node.description)
    await tx.update(schema.node, ("id", "secret_hash"), [(known, node.secret_hash)])
    return known


async def announced(tx: Tx, node: NodeId, said: NodeDescription, now: Instant, join_key: str | None) -> None:
    await _make_room(tx, said, now)
    await _lock(tx, node)
    rows = await tx.fetch(JOIN_KEY, node)
    if not rows:
        raise NotFound(f"no node {node_text(node)}")
    if join_key not in (None, rows[0][0]):
        raise NotAllowed("a node registers only itself, and this join_key is not its own")
    await _describe(tx, node, said)


async def _make_room(tx: Tx, said: NodeDescription, now: Instant) -> None:
    cluster = Cluster(said.cluster, ClusterStatus.ACTIVE, created_at=now, changed_at=now)
    await tx.insert_new(schema.cluster, CLUSTERS.columns, [CLUSTERS.to_row(cluster)])
    if said.device_id is not None:
        # Two nodes that claim one handle at once wait for each other here, so that the second gets the Conflict error.
        await lock_installation(tx)


async def _lock(tx: Tx, node: NodeId) -> None:
    await tx.fetch(LOCK_LEASE, node)
    await tx.fetch(LOCK_NODES, [node])


async def _describe(tx: Tx, known: NodeId, said: NodeDescription) -> None:
    if said.device_id is not None:
        holder = await tx.fetch(NODE_BY_DEVICE, said.device_id)
        if holder and holder[0][0] != known:
            raise Conflict(f"device_id {said.device_id} is another node's")
    columns = ("id", "device_id", "description")
    await tx.update(schema.node, columns, [(known, said.device_id, row_codec.encode_json(said))])
    await tx.execute("UPDATE lease SET lease_ms = $2 WHERE node = $1 AND is_open = 0", known, said.lease_ms)
