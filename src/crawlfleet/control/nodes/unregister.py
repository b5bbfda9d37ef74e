"""Remove a node: its secret is revoked at once, its work is free when its lease has ended, its history stays."""

from __future__ import annotations

from crawlfleet.model.ids import NodeId
from crawlfleet.ports.broker import Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeSessionStore


class Unregister:
    def __init__(self, *, store: NodeSessionStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def unregister(self, node: NodeId) -> None:
        await self._store.unregister_node(node, self._clock.now())
        await self._broker.signals.send_signals([node_topic(node)])
