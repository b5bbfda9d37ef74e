"""Publishes the hints of a transition to the broker. They are only hints: a poll of the store finds whatever is
lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawlfleet.model.ids import TaskId
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.broker import ENDS, LEADER, Broker, node_topic
from crawlfleet.ports.task_store import Applied


async def publish_hints(broker: Broker, applied: Applied) -> None:
    """Publish the ready tasks and the freed slots of a transition, and signal those who wait for them."""
    if applied.ready:
        await broker.ready_index.offer_tasks(applied.ready)
    if applied.freed:
        await broker.freed_slots.post_slots(applied.freed)
    topics = [node_topic(node) for node in applied.nodes_to_wake]
    if applied.ready or applied.freed:
        topics.append(LEADER)
    if applied.freed or any(status.is_final for status in applied.after.values()):
        topics.append(ENDS)
    if topics:
        await broker.signals.send_signals(topics)


async def publish_ready(broker: Broker, ready: Mapping[LaneId, Sequence[TaskId]]) -> None:
    """Publish tasks that are ready, and wake the leader."""
    if ready:
        await broker.ready_index.offer_tasks(ready)
        await broker.signals.send_signals([LEADER])
