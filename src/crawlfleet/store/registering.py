"""A node joins, or joins again: one row by its join key, one by its handle."""

from __future__ import annotations

from crawlfleet.errors import Conflict
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import ClusterStatus, Health, NodeStatus
from crawlfleet.ports.store import NewNode
from crawlfleet.store import codec, tables
from crawlfleet.store.configs import lock_installation
from crawlfleet.store.journal import write_events
from crawlfleet.store.tx import Tx

_NODE_COLUMNS = (
    "id", "join_key", "device_id", "secret_hash", "description", "status", "health", "health_details", "health_at",
    "slots_wanted", "drain_by", "created_at", "removed_at",
)  # fmt: skip
_LEASE_COLUMNS = ("node", "session", "is_open", "renewals", "number", "lease_ms", "renewed_at", "measurement")
JOINED = "SELECT id FROM node WHERE join_key = $1"
NODE_BY_DEVICE = "SELECT id FROM node WHERE device_id = $1"
LOCK_LEASE = "SELECT session, is_open, renewals FROM lease WHERE node = $1 LOCK_ROWS(lease)"
LOCK_NODES = "SELECT id, status, removed_at FROM node WHERE id AMONG($1) ORDER BY id LOCK_ROWS(node)"


async def registered(tx: Tx, node: NewNode, now: Instant) -> NodeId:
    said = node.description
    columns = ("name", "status", "description", "project", "changed_at")
    await tx.insert_new(tables.cluster, columns, [(said.cluster, int(ClusterStatus.ACTIVE), "", None, now)])
    if said.device_id is not None:
        # Two that ask for one handle at once stand in line here, so that the second is told whose it is.
        await lock_installation(tx)
    body = codec.encode(said)
    row = (
        node.id, node.join_key, said.device_id, node.secret_hash, body, int(NodeStatus.PENDING), int(Health.UNKNOWN),
        b"{}", None, None, None, now, None,
    )  # fmt: skip
    await tx.insert_new(tables.node, _NODE_COLUMNS, [row])
    rows = await tx.fetch(JOINED, node.join_key)
    if not rows:
        if said.device_id is not None and await tx.fetch(NODE_BY_DEVICE, said.device_id):
            raise Conflict(f"device_id {said.device_id} is another node's")
        # Whoever stood in the way was removed at this very moment.
        return await registered(tx, node, now)
    if rows[0][0] != node.id:
        return await _registered_again(tx, rows[0][0], node, body, now)
    await tx.insert(tables.lease, _LEASE_COLUMNS, [(node.id, 0, 0, 0, 0, said.lease_ms, None, None)])
    shared = {"node": node.id, "name": said.name, "cluster": said.cluster}
    await write_events(tx, [EventBatch(Kind.NODE_REGISTERED, shared=shared)], now)
    return node.id


async def _registered_again(tx: Tx, known: NodeId, node: NewNode, body: bytes, now: Instant) -> NodeId:
    """The first answer was lost on its way: the same node, with a secret that reaches it this time."""
    said = node.description
    await tx.fetch(LOCK_LEASE, known)
    await tx.fetch(LOCK_NODES, [known])
    if not await tx.fetch(JOINED, node.join_key):
        # Removed at this very moment: its key is free again.
        return await registered(tx, node, now)
    if said.device_id is not None:
        holder = await tx.fetch(NODE_BY_DEVICE, said.device_id)
        if holder and holder[0][0] != known:
            raise Conflict(f"device_id {said.device_id} is another node's")
    columns = ("id", "device_id", "secret_hash", "description")
    await tx.update(tables.node, columns, [(known, said.device_id, node.secret_hash, body)])
    await tx.execute("UPDATE lease SET lease_ms = $2 WHERE node = $1 AND is_open = 0", known, said.lease_ms)
    return known
