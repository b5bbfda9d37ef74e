"""The health of nodes' proxies: one row per node, replaced by each report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.proxy_health import NodeProxies, ProxyHealth
from crawlfleet.store import schema
from crawlfleet.store.engine.transaction import Engine, Tx

_HOLD_NODE = "SELECT id FROM node WHERE id = $1 AND removed_at IS NULL SHARE_ROWS(node)"
_WRITE_REPORT = "UPDATE node_proxies SET body = $2, reported_at = $3 WHERE node = $1"
_READ_REPORTS = (
    "SELECT p.node, p.body, p.reported_at FROM node_proxies p JOIN node n ON n.id = p.node "
    "WHERE n.removed_at IS NULL ORDER BY p.node"
)
_health = msgspec.json.Decoder(tuple[ProxyHealth, ...])


class NodeProxyTables:
    _engine: Engine

    async def put_node_proxies(self, node: NodeId, proxies: Sequence[ProxyHealth], now: Instant) -> bool:
        async def write_report(tx: Tx) -> bool:
            if not await tx.fetch(_HOLD_NODE, node):
                return False
            body = msgspec.json.encode(list(proxies))
            await tx.insert_new(schema.node_proxies, ("node", "body", "reported_at"), [(node, body, now)])
            await tx.execute(_WRITE_REPORT, node, body, now)
            return True

        return await self._engine.write(write_report)

    async def node_proxies(self) -> list[NodeProxies]:
        rows = await self._engine.read(lambda tx: tx.fetch(_READ_REPORTS))
        return [NodeProxies(node, _health.decode(body), reported_at) for node, body, reported_at in rows]
