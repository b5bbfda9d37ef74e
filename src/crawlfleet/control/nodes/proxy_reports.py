"""Reports of nodes on the health of their proxies."""

from __future__ import annotations

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.node import Node
from crawlfleet.model.proxy_health import NodeProxies, ProxyHealth
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore
from crawlfleet.wire.proxies import ProxiesUp
from crawlfleet.wire.tasks import storage_problem


class ProxyReports:
    def __init__(self, *, store: NodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def put(self, node: NodeId, up: ProxiesUp) -> None:
        """Replace the node's last report. Raises InvalidInput that names the proxy, and NotFound for the node."""
        proxies = [
            ProxyHealth(
                body.pool, body.proxy, body.uses, body.failures, body.down_for_ms, body.latency_ms, body.last_failure
            )
            for body in up.proxies
        ]
        for at, health in enumerate(proxies):
            if any(storage_problem(text) for text in (health.pool, health.proxy, health.last_failure)):
                raise InvalidInput("has characters that cannot be stored", field=f"proxies[{at}]")
        if not await self._store.put_node_proxies(node, proxies, self._clock.now()):
            raise NotFound(f"no node {node_text(node)}")

    async def list_reports(self) -> list[tuple[Node, NodeProxies]]:
        """The last report of each node that was not removed."""
        reports = await self._store.node_proxies()
        nodes = {node.id: node for node in await self._store.load_nodes()}
        return [(nodes[report.node], report) for report in reports if report.node in nodes]
