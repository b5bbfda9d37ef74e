"""The health of nodes: judgements of the leader, and samples of what nodes measured."""

from __future__ import annotations

from collections.abc import Sequence

from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import Health
from crawlfleet.ports.node_store import HealthChange, HeartbeatSample
from crawlfleet.store import row_codec, schema
from crawlfleet.store.engine.transaction import Engine, Tx
from crawlfleet.store.tasks.transaction_log import write_events

HEALTHS = "SELECT id, health FROM node WHERE id AMONG($1) ORDER BY id LOCK_ROWS(node)"
CLEAR = "UPDATE node SET health = $2, health_details = $3, health_at = $4 WHERE id = $1"
HISTORY = "SELECT at, measurement FROM heartbeat WHERE node = $1 AND at >= $2 AND at < $3 ORDER BY at DESC LIMIT $4"


class NodeHealthTables:
    _engine: Engine

    async def set_health(self, changes: Sequence[HealthChange], term: int, now: Instant) -> None:
        async def write_health(tx: Tx) -> None:
            rows = await tx.fetch(HEALTHS, sorted(change.node for change in changes))
            have = {node: Health(health) for node, health in rows}
            changed = [change for change in changes if have.get(change.node) is change.had]
            details = [(change.node, row_codec.encode_json(change.details)) for change in changed]
            await tx.update(schema.node, ("id", "health_details"), details)
            health_changes = [change for change in changed if change.health is not change.had]
            await tx.update(
                schema.node,
                ("id", "health", "health_at"),
                [(change.node, int(change.health), now) for change in health_changes],
            )
            batches = [_health_event(change) for change in health_changes]
            batches += [
                unavailable_event(change.node, change.health.word)
                for change in health_changes
                if change.health is Health.UNHEALTHY
            ]
            if batches:
                await write_events(tx, batches, now)

        if changes:
            await self._engine.write(write_health, term)

    async def add_heartbeats(self, samples: Sequence[tuple[NodeId, bytes]], term: int, now: Instant) -> None:
        rows = [(node, now, body) for node, body in samples]
        columns = ("node", "at", "measurement")
        await self._engine.write(lambda tx: tx.insert_new(schema.heartbeat, columns, rows), term)

    async def heartbeat_history(
        self, node: NodeId, since: Instant, until: Instant, limit: int
    ) -> list[HeartbeatSample]:
        rows = await self._engine.read(lambda tx: tx.fetch(HISTORY, node, since, until, limit))
        return [
            HeartbeatSample(sampled_at, measured)
            for sampled_at, body in reversed(rows)
            if (measured := row_codec.decode_measurement(bytes(body))) is not None
        ]


async def clear_health(tx: Tx, node: NodeId, now: Instant, above: Health = Health.UNKNOWN) -> list[EventBatch]:
    """Reset the health of a node to unknown, if it is worse than `above`; return the events to be written."""
    rows = await tx.fetch(HEALTHS, [node])
    if not rows or rows[0][1] <= above:
        return []
    await tx.execute(CLEAR, node, int(Health.UNKNOWN), row_codec.encode_json({}), now)
    return [_health_event(HealthChange(node, Health(rows[0][1]), Health.UNKNOWN, {}))]


def unavailable_event(node: NodeId, reason: str) -> EventBatch:
    """Make the event that no more tasks are placed on the node."""
    return EventBatch(Kind.NODE_UNAVAILABLE, shared={"node": node, "reason": reason})


def _health_event(change: HealthChange) -> EventBatch:
    shared = {"node": change.node, "old": change.had.word, "new": change.health.word, "details": change.details}
    return EventBatch(Kind.NODE_HEALTH_CHANGED, shared=shared)
