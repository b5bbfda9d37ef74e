"""What is ready to run, what has come due, and which queues stand still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import Queue
from crawlfleet.model.requirement import Lane, LaneId


class HeldTask(NamedTuple):
    node: NodeId
    task: TaskId


class ReadyTasks(Protocol):
    """The durable side of the ready index."""

    async def ready_lanes(self) -> list[LaneId]:
        """Lanes that have pending tasks."""
        ...

    async def ready_heads(self, lane: LaneId, limit: int) -> list[TaskId]:
        """The oldest pending tasks of a lane: always from its head, as ids are not commit order."""
        ...

    async def lanes(self, ids: Sequence[LaneId]) -> list[Lane]: ...

    async def due(self, now: Instant, limit: int) -> list[TaskId]:
        """Waiting or retrying tasks whose time has come and that wait for no parent."""
        ...

    async def overdue(self, now: Instant, limit: int, after: HeldTask | None = None) -> list[HeldTask]:
        """Held tasks past their hard deadline that were not recalled yet, by node and id; `after` is the last one
        seen."""
        ...

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        """True when that changed something."""
        ...

    async def paused_queues(self) -> set[str]: ...

    async def ready_ends(self, lane: LaneId, limit: int) -> list[TaskId]:
        """The newest pending tasks of a lane, newest first."""
        ...

    async def ready_parts(
        self, oldest: Sequence[LaneId], newest: Sequence[LaneId], limit: int
    ) -> dict[LaneId, list[TaskId]]:
        """The heads of some lanes and the ends of others, read on one way to the store."""
        ...

    async def set_queue_order(self, queue: str, is_lifo: bool, now: Instant) -> bool:
        """True when that changed something."""
        ...

    async def queues(self) -> list[Queue]:
        """Those that somebody paused, resumed or ordered, by name."""
        ...
