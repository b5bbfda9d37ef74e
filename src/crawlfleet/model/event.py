"""Events record every change of state, written in the transaction that made the change.

One transaction writes one row with a few `EventBatch`es (columns, not objects); reading expands them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from crawlfleet.model.instants import Instant


class Kind(StrEnum):
    """The kind of an event."""

    TASK_SUBMITTED = "task.submitted"
    TASK_READY = "task.ready"
    TASK_ASSIGNED = "task.assigned"
    TASK_STARTED = "task.started"
    TASK_RECALLED = "task.recalled"
    TASK_REASSIGN = "task.reassign"
    TASK_RETRYING = "task.retrying"
    TASK_PARKED = "task.parked"
    TASK_COMPLETED = "task.completed"
    TASK_FAILED = "task.failed"
    TASK_TIMEOUT = "task.timeout"
    TASK_CANCELLED = "task.cancelled"
    TASK_REOPENED = "task.reopened"
    TASK_REPRIORITIZED = "task.reprioritized"
    TASK_DROPPED = "task.dropped"
    NODE_REGISTERED = "node.registered"
    NODE_UNREGISTERED = "node.unregistered"
    NODE_ONLINE = "node.online"
    NODE_DRAINING = "node.draining"
    NODE_OFFLINE = "node.offline"
    NODE_TIMEOUT = "node.timeout"
    NODE_HEALTH_CHANGED = "node.health_changed"
    NODE_SLOTS_CHANGED = "node.slots_changed"
    NODE_HEARTBEAT = "node.heartbeat"
    """A live event only: sent to streams that request it, and stored nowhere."""
    NODE_UNAVAILABLE = "scheduler.node_unavailable"
    TASKS_STUCK = "scheduler.tasks_stuck"
    GROUP_CREATED = "group.created"
    GROUP_FINISHED = "group.finished"
    CRAWL_PROGRESS = "crawl.progress"
    STRATEGY_FAILED = "scheduler.strategy_failed"
    LEADER_ELECTED = "leader.elected"
    QUEUE_PAUSED = "queue.paused"
    QUEUE_RESUMED = "queue.resumed"
    QUEUE_CHANGED = "queue.changed"
    PROJECT_CHANGED = "project.changed"
    SCHEDULE_CREATED = "schedule.created"
    SCHEDULE_CHANGED = "schedule.changed"
    SCHEDULE_FIRED = "schedule.fired"
    SCHEDULE_SKIPPED = "schedule.skipped"
    SCHEDULE_REMOVED = "schedule.removed"
    CLUSTER_CHANGED = "cluster.changed"
    HOST_BACKOFF = "host.backoff"
    HOST_FORGIVEN = "host.forgiven"
    BROKER_LOST = "broker.lost"
    BROKER_BACK = "broker.back"


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one kind: `each` holds a column per field, `shared` the fields that are the same for all."""

    kind: Kind
    each: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    shared: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.each.values()))) if self.each else 1


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the log."""

    number: int
    """Number of the event in the log, in the order of the commits."""
    at: Instant
    kind: str
    data: Mapping[str, Any]


def expand_batches(first_number: int, at: Instant, batches: Sequence[EventBatch]) -> Iterator[Event]:
    """Yield the events of the batches, numbered from `first_number` on."""
    number = first_number
    for batch in batches:
        for position in range(len(batch)):
            data = dict(batch.shared) | {name: column[position] for name, column in batch.each.items()}
            yield Event(number, at, batch.kind, data)
            number += 1
