"""Reads nodes for people: by id or device id, with slots, running tasks and measurements, and their history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Measurement, Node
from crawlfleet.ports.broker import NodeMeasurements
from crawlfleet.ports.node_store import HeartbeatSample, NodeSessionStore, NodeStore
from crawlfleet.ports.task_store import TaskStore


class NodeReaderStore(NodeStore, NodeSessionStore, TaskStore, Protocol):
    """The part of the store that the reader needs."""


class NodeReport(NamedTuple):
    node: Node
    slots: int
    """Number of slots that is in effect, from the node's own declaration, an operator or the configuration."""
    running: int
    """Number of tasks that the node has."""
    measurement: Measurement | None
    """The newest measurement of a connected node, where this master has one."""
    follows_load: bool


class NodeReader:
    def __init__(self, *, store: NodeReaderStore, measurements: NodeMeasurements, configure: Configure) -> None:
        self._store = store
        self._measurements = measurements
        self._configure = configure

    async def list_nodes(self) -> list[Node]:
        """Return every node that is not removed."""
        return await self._store.load_nodes()

    async def find_node(self, node: NodeId) -> Node | None:
        """Return a node unless it is unknown or was removed."""
        nodes = await self._store.load_nodes([node])
        return nodes[0] if nodes and nodes[0].removed_at is None else None

    async def load_nodes(self, ids: Iterable[NodeId]) -> list[Node]:
        """Return these nodes, removed ones among them."""
        wanted = sorted(ids)
        return await self._store.load_nodes(wanted) if wanted else []

    async def find_by_device(self, device_id: str) -> NodeId | None:
        return await self._store.node_by_device(device_id)

    async def list_clusters(self) -> list[Cluster]:
        return await self._store.list_clusters()

    async def report_nodes(self, nodes: Sequence[Node]) -> list[NodeReport]:
        """Return the nodes with what they use, by name."""
        held = await self._store.held_tasks([node.id for node in nodes])
        newest = await self._measurements.load_measurements()
        await self._configure.refresh()
        return [
            NodeReport(
                node,
                self._configure.with_effective_slots(node).slots,
                len(held[node.id]),
                newest.get(node.id) if node.is_session_open else None,
                self._configure.follows_load(node),
            )
            for node in sorted(nodes, key=lambda node: (node.description.name, node.id))
        ]

    async def list_heartbeats(
        self, node: NodeId, since: Instant, until: Instant, limit: int
    ) -> Sequence[HeartbeatSample]:
        """Return the newest `limit` samples from `since` on and before `until`, oldest first."""
        return await self._store.heartbeat_history(node, since, until, limit)
