"""The store of ready tasks, of tasks that have come due, and of queues with their order and pauses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import Lane, LaneId, Queue


class HeldTask(NamedTuple):
    """A task and the node that holds it."""

    node: NodeId
    task: TaskId


class ReadyTasks(Protocol):
    """Access to ready tasks: the durable side of the ready index."""

    async def ready_lanes(self) -> list[LaneId]:
        """Return the lanes that have pending tasks."""
        ...

    async def ready_heads(self, lane: LaneId, limit: int) -> list[TaskId]:
        """Return the oldest pending tasks of a lane: always from its head, as ids are not in commit order."""
        ...

    async def lanes(self, ids: Sequence[LaneId]) -> list[Lane]: ...

    async def due(self, now: Instant, limit: int) -> list[TaskId]:
        """Return waiting or retrying tasks whose time has come and that wait for no parent."""
        ...

    async def overdue(self, now: Instant, limit: int, after: HeldTask | None = None) -> list[HeldTask]:
        """Return held tasks past their hard deadline that were not recalled yet, by node and id.

        `after` is the last one seen.
        """
        ...

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        """Pause or resume a queue; True when that changed something."""
        ...

    async def paused_queues(self) -> set[str]: ...

    async def ready_ends(self, lane: LaneId, limit: int) -> list[TaskId]:
        """Return the newest pending tasks of a lane, newest first."""
        ...

    async def ready_parts(
        self, oldest: Sequence[LaneId], newest: Sequence[LaneId], limit: int
    ) -> dict[LaneId, list[TaskId]]:
        """Return the heads of some lanes and the ends of others, read in one transaction."""
        ...

    async def set_queue_order(self, queue: str, is_lifo: bool, now: Instant) -> bool:
        """Set the order of a queue; True when that changed something."""
        ...

    async def queues(self) -> list[Queue]:
        """Return the queues that a person paused, resumed or ordered, by name."""
        ...
