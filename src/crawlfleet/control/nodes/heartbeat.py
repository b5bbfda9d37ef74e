"""Serves the simple client's heartbeat: a node without an agent reports its measurements and the tasks it runs.

It stands in for session and sync: the first one opens a session, the others renew it. Its answer lists the executions
that the client has to stop. One that the client does not run, or does not stop in time, is ended by the master: the
fence refuses what the client reports of it later.

A node with an agent renews by its syncs alone; a heartbeat for it changes nothing and only returns its status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import msgspec

from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.errors import InvalidInput, NotFound
from crawlfleet.model.execution import End, Outcome
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId, node_text, parse_id
from crawlfleet.model.instants import Instant, ms
from crawlfleet.model.node import Measurement, Node
from crawlfleet.model.status import NodeStatus, Recall, TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.ports.broker import LEADER, LOOK, Broker
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
UNHEEDED_S = 60.0
"""Span after which an execution that the client was ordered to stop, and did not, is ended without it."""
DRAIN_REASON = "drain"
_MAX_NODES = 10_000

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

    def next_heartbeat_s(self, node: Node) -> float:
        """Return after how many seconds a client's next heartbeat is due: as it named itself, or as configured; three
        of them fit into its lease."""
        interval_s = node.description.interval_s or self.interval_s
        return min(interval_s, node.description.lease_ms / 1000 / LEASE_INTERVALS)


class StopOrder(NamedTuple):
    """An execution that the client has to stop."""

    task: TaskId
    execution: ExecutionId
    reason: str
    """Word of the recall, or `drain`."""


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
    stops: Sequence[StopOrder] = ()
    """Executions that the client has to stop, and then to report."""
    drain_by: Instant | None = None
    """Instant by which a node that drains should have finished; None when it does not drain."""


class Heartbeat:
    def __init__(
        self,
        *,
        store: NodeCallStore,
        broker: Broker,
        clock: Clock,
        rng: Random,
        finish: Finish,
        simple: SimpleClients | None = None,
    ) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._finish = finish
        self._simple = simple or SimpleClients()
        self._ordered_at: dict[NodeId, dict[ExecutionId, float]] = {}
        """When this master first ordered each execution to be stopped, in monotonic seconds."""

    async def record_heartbeat(
        self, node: NodeId, measurement: Measurement, active_tasks: Sequence[str] | None
    ) -> HeartbeatAnswer:
        """Renew the lease of a node, or open its session. `active_tasks` names the tasks that the client runs; None:
        it does not say."""
        now = self._clock.now()
        record = await self._require_node(node)
        status, drain_by = record.status, record.drain_by
        if record.description.is_pull_only:
            renewed = await self._renew(record, measurement, now)
            if not renewed.is_open:
                # Its lease has just ended, or another heartbeat of it opened a session: once more, as it is now.
                renewed = await self._renew(await self._require_node(node), measurement, now)
            status, drain_by = renewed.status, renewed.drain_by
            await self._broker.measurements.put_measurement(node, measurement)
            if renewed.came_online:
                await self._broker.signals.send_signals([LOOK, LEADER])
        held = (await self._store.held_tasks([node]))[node]
        stops: list[StopOrder] = []
        if record.description.is_pull_only:
            is_drain_over = status is NodeStatus.MAINTENANCE and drain_by is not None and drain_by <= now
            stops = await self._order_stops(node, held, active_tasks, is_drain_over=is_drain_over)
        ours = {row.id for row in held}
        return HeartbeatAnswer(
            node,
            now,
            status,
            [text for text in active_tasks or () if _parse_task(text) not in ours],
            self._simple.next_heartbeat_s(record),
            stops,
            drain_by if status is NodeStatus.MAINTENANCE else None,
        )

    def interval_s(self, node: Node) -> float:
        """Return the seconds between two heartbeats of a node."""
        return self._simple.next_heartbeat_s(node)

    async def ensure_session(self, node: NodeId) -> Node:
        """Open a session of a simple client that has none, and renew its lease when a part of it has passed, for
        calls that show that the client is alive. A node with an agent stays as it is. Raises NotFound."""
        record, now = await self._require_node(node), self._clock.now()
        if not record.description.is_pull_only:
            return record
        renewed_at = record.renewed_at or 0
        if record.is_session_open and 0 <= now - renewed_at < record.description.lease_ms // (2 * LEASE_INTERVALS):
            return record
        renewed = await self._renew(record, record.measurement or Measurement(), now)
        if renewed.came_online:
            await self._broker.signals.send_signals([LOOK, LEADER])
        return await self._require_node(node)

    async def _order_stops(
        self, node: NodeId, held: Sequence[LiveTask], active_tasks: Sequence[str] | None, *, is_drain_over: bool
    ) -> list[StopOrder]:
        """Return what the client has to stop. What it does not run, or has not stopped in time, is ended here."""
        now_mono, before = self._clock.monotonic(), self._ordered_at.pop(node, {})
        running = None if active_tasks is None else {_parse_task(text) for text in active_tasks}
        orders, over = {}, []
        stopped = [row for row in held if is_drain_over or row.recall is not Recall.NONE]
        undelivered = await self._undelivered_executions(node, stopped)
        for row in stopped:
            is_unheeded = now_mono - before.get(row.execution, now_mono) >= UNHEEDED_S
            is_absent = row.execution in undelivered or (running is not None and row.id not in running)
            if is_unheeded or is_absent:
                over.append(Outcome(node, row.id, row.execution, End.RETURNED))
            else:
                reason = DRAIN_REASON if row.recall is Recall.NONE else row.recall.word
                orders[row.execution] = StopOrder(row.id, row.execution, reason)
        if over:
            await self._finish.finish_outcomes(over)
        if orders:
            if len(self._ordered_at) >= _MAX_NODES:
                self._ordered_at.clear()
            self._ordered_at[node] = {execution: before.get(execution, now_mono) for execution in orders}
        return list(orders.values())

    async def _undelivered_executions(self, node: NodeId, rows: Sequence[LiveTask]) -> set[ExecutionId]:
        """Return those executions that no pull has brought to the node yet."""
        unstarted = {row.execution for row in rows if row.status is TaskStatus.ASSIGNED}
        return unstarted - await self._store.delivered_executions(node) if unstarted else set()

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
