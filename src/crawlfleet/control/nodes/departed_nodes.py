"""Nodes that have been away for long: found, and removed on a person's order."""

from __future__ import annotations

from collections.abc import Iterable

from crawlfleet.control.nodes.node_changes import NodeChanges
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Node
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore

AWAY = (NodeStatus.OFFLINE, NodeStatus.UNRESPONSIVE)
REMOVED_AT_ONCE = 1_000


def last_seen(node: Node) -> Instant:
    """Return when a node last renewed its lease, or joined if it never did."""
    return node.created_at if node.renewed_at is None else node.renewed_at


def departed_nodes(nodes: Iterable[Node], now: Instant, gone_for_ms: int) -> list[Node]:
    """Select the nodes that are away and were last seen that long ago, the longest first. Nodes in maintenance stay:
    a person keeps them there."""
    gone = [node for node in nodes if node.status in AWAY and now - last_seen(node) >= gone_for_ms]
    return sorted(gone, key=lambda node: (last_seen(node), node.id))


class DepartedNodes:
    def __init__(self, *, store: NodeStore, node_changes: NodeChanges, clock: Clock) -> None:
        self._store = store
        self._node_changes = node_changes
        self._clock = clock

    async def clean_up(self, gone_for_ms: int, *, is_applied: bool) -> list[Node]:
        """Return the nodes that have been away for that span, at most `REMOVED_AT_ONCE`, and remove them if asked."""
        nodes = departed_nodes(await self._store.load_nodes(), self._clock.now(), gone_for_ms)[:REMOVED_AT_ONCE]
        if is_applied:
            for node in nodes:
                await self._node_changes.unregister_node(node.id)
        return nodes
