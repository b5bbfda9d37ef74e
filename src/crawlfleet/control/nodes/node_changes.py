"""Changes of a node that a person requests: drain it or hold it for maintenance, let it take work
again, end its session, set its slots, remove it."""

from __future__ import annotations

from random import Random
from typing import Protocol

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model import limits
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.model.instants import ms
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.broker import LEADER, LOOK, Broker, node_topic
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import NodeSessionStore, NodeStore
from crawlfleet.scheduling.tasks import task_state_machine

DRAIN_S = 300.0


class _Store(NodeStore, NodeSessionStore, Protocol):
    pass


class NodeChanges:
    def __init__(self, *, store: _Store, broker: Broker, clock: Clock, rng: Random) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng

    async def drain_node(self, node: NodeId, within_s: float = DRAIN_S) -> None:
        """Give the node no new work; what it runs is finished, or handed back when the time is up."""
        if not 0 <= within_s <= 7 * 86_400:
            raise InvalidInput("0 s to 7 days", field="within_s")
        now = self._clock.now()
        await self._set_drain(node, now + ms(within_s))

    async def make_ready(self, node: NodeId) -> None:
        """End a drain: the node is given new work again."""
        await self._set_drain(node, None)

    async def end_session(self, node: NodeId) -> None:
        """End the session of the node, as if it had left: its work is handed back at once. A node without an open
        session stays as it is. Raises NotFound."""
        nodes = await self._store.load_nodes([node])
        if not nodes or nodes[0].removed_at is not None:
            raise NotFound(f"no node {node_text(node)}")
        now = self._clock.now()
        decide = task_state_machine.return_execution("its node was taken offline", now, self._rng)
        applied = await self._store.end_session(node, nodes[0].session, NodeStatus.OFFLINE, decide, now)
        if applied is not None:
            await publish_hints(self._broker, applied)
        await self._broker.signals.send_signals([node_topic(node), LOOK, LEADER])

    async def set_slots(self, node: NodeId, slots: int | None, *, follows_load: bool = False) -> None:
        """Set the slots of the node: a number, or as its load allows, or (neither) as its cluster or the node sets."""
        if slots is not None and not 0 <= slots <= limits.SLOTS_MAX:
            raise InvalidInput(f"0 to {limits.SLOTS_MAX}", field="slots")
        if not await self._store.set_slots(node, slots, self._clock.now(), follows_load=follows_load):
            raise NotFound(f"no node {node_text(node)}")
        await self._broker.signals.send_signals([node_topic(node), LOOK, LEADER])

    async def unregister_node(self, node: NodeId) -> None:
        """Remove the node: its secret is revoked at once, its work is free when its lease has ended, its history
        stays."""
        await self._store.unregister_node(node, self._clock.now())
        await self._broker.signals.send_signals([node_topic(node)])

    async def _set_drain(self, node: NodeId, drain_by: int | None) -> None:
        if not await self._store.set_maintenance(node, drain_by, drain_by is not None, self._clock.now()):
            raise NotFound(f"no node {node_text(node)}")
        await self._broker.signals.send_signals([node_topic(node), LOOK, LEADER])
