"""Serves the simple client's heartbeat: a node without an agent reports its measurements and the tasks it runs.

It stands in for session and sync: the first one opens a session, the others renew it. A node with an agent renews by
its syncs alone; a heartbeat for it changes nothing and only returns its status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import msgspec

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.ids import NodeId, node_text, parse_id
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.node import Measurement, Node
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import Renewal, Renewed
from crawlfleet.ports.store import NodeCallStore
from crawlfleet.scheduling.tasks import task_state_machine

INTERVAL_S = 30.0
"""Interval of a client that did not agree on another one."""
LEASE_INTERVALS = 3
TIMEOUT_S = 300.0
LEASE_UNSET_MS = 0
"""Lease in the description of a simple client that named no interval: the installation's lease holds for it."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class SimpleClients:
    """Defaults for nodes without an agent that name no interval."""

    interval_s: float = INTERVAL_S
    timeout_s: float = TIMEOUT_S
    """Seconds of silence after which such a node is taken for lost."""

    @property
    def lease_ms(self) -> int:
        # A lost heartbeat or two must not cost the node, whatever was configured.
        return ms(max(self.timeout_s, LEASE_INTERVALS * self.interval_s))


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat."""

    node: NodeId
    at: Instant
    status: NodeStatus
    stale: list[str]
    """Named tasks that the store does not assign to the node: it should stop them."""
    next_s: float = INTERVAL_S
    """Seconds until the next heartbeat is due."""


class Heartbeat:
    def __init__(
        self, *, store: NodeCallStore, broker: Broker, clock: Clock, rng: Random, simple: SimpleClients | None = None
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._simple = simple or SimpleClients()

    async def record_heartbeat(
        self, node: NodeId, measurement: Measurement, active_tasks: Sequence[str]
    ) -> HeartbeatAnswer:
        now = self._clock.now()
        record = await self._require_node(node)
        status = record.status
        if record.description.is_pull_only:
            renewed = await self._renew(record, measurement, now)
            if not renewed.is_open:
                # Its lease has just ended, or another heartbeat of it opened a session: once more, as it is now.
                renewed = await self._renew(await self._require_node(node), measurement, now)
            status = renewed.status
            await self._broker.measurements.put_measurement(node, measurement)
        ours = {row.id for row in (await self._store.held_tasks([node]))[node]}
        # A client that agreed on an interval of its own has three of them as its lease.
        next_s = min(self._simple.interval_s, record.description.lease_ms / 1000 / LEASE_INTERVALS)
        return HeartbeatAnswer(
            node, now, status, [text for text in active_tasks if _parse_task(text) not in ours], next_s
        )

    async def _renew(self, record: Node, measurement: Measurement, now: Instant) -> Renewed:
        session = record.session if record.is_session_open else await self._open_session(record, now)
        # Each heartbeat raises the count by one: of two at the same time one counts, which is enough.
        number = record.renewals + 1 if session == record.session else 1
        (renewed,) = await self._store.renew_leases([Renewal(record.id, session, number, _encode(measurement))], now)
        return renewed

    async def _open_session(self, record: Node, now: Instant) -> int:
        description = record.description
        decide = task_state_machine.lose_execution("its node began a new session", now, self._rng)
        session, applied = await self._store.open_session(
            record.id, description.slots, description.task_types, decide, now, after=record.session
        )
        if applied is not None:
            await publish_hints(self._broker, applied)
        return session

    async def _require_node(self, node: NodeId) -> Node:
        nodes = await self._store.load_nodes([node])
        if not nodes or nodes[0].removed_at is not None:
            raise NotFound(f"no node {node_text(node)}")
        return nodes[0]


def _parse_task(text: str) -> int | None:
    """The task's id; None for a text that is no id of ours: such a client holds nothing we assigned."""
    try:
        return parse_id(text, "task", field="active_tasks")
    except InvalidInput:
        return None
