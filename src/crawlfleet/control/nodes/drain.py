"""Drain a node, hold it for maintenance, or let it take work again."""

from __future__ import annotations

from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import ms
from crawlfleet.ports.broker import LEADER, LOOK, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeStore

DRAIN_S = 300.0


class Drain:
    def __init__(self, *, store: NodeStore, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def drain(self, node: NodeId, within_s: float = DRAIN_S) -> None:
        """Give the node no new work; what it runs is finished, or handed back when the time is up."""
        if not 0 <= within_s <= 7 * 86_400:
            raise InvalidInput("0 s to 7 days", field="within_s")
        now = self._clock.now()
        await self._hold(node, now + ms(within_s))

    async def ready(self, node: NodeId) -> None:
        await self._hold(node, None)

    async def set_slots(self, node: NodeId, slots: int | None, *, follows_load: bool = False) -> None:
        """Set the slots of the node: a number, or as its load allows, or (neither) as its cluster or the node sets."""
        if slots is not None and not 0 <= slots <= limits.SLOTS_MAX:
            raise InvalidInput(f"0 to {limits.SLOTS_MAX}", field="slots")
        if not await self._store.set_slots(node, slots, self._clock.now(), follows_load=follows_load):
            raise NotFound(f"no node {node_text(node)}")
        await self._broker.signals.send_signals([node_topic(node), LOOK, LEADER])

    async def _hold(self, node: NodeId, drain_by: int | None) -> None:
        if not await self._store.set_maintenance(node, drain_by, drain_by is not None, self._clock.now()):
            raise NotFound(f"no node {node_text(node)}")
        await self._broker.signals.send_signals([node_topic(node), LOOK, LEADER])
