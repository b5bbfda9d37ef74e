"""The store of nodes' reports on their proxies. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.proxy_health import NodeProxies, ProxyHealth


class ProxyStore(Protocol):
    """Access to the proxy reports of nodes."""

    async def put_node_proxies(self, node: NodeId, proxies: Sequence[ProxyHealth], now: Instant) -> bool:
        """Replace the node's last report. False, and nothing is written, for a node that was removed."""
        ...

    async def node_proxies(self) -> list[NodeProxies]:
        """Return the last report of each node that was not removed."""
        ...
