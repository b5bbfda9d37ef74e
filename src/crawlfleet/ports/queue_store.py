"""Tasks that wait: queues, ready and due tasks, parked tasks, and those that others are preempted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node, OpenPull
from crawlfleet.model.project import Project
from crawlfleet.model.queue import LaneId, Queue
from crawlfleet.model.task import ParkedTask
from crawlfleet.ports.task_store import Applied


class HeldTask(NamedTuple):
    """A task and the node that holds it."""

    node: NodeId
    task: TaskId


class PlacementView(NamedTuple):
    """The stored state that a dispatch round begins with."""

    nodes: Sequence[Node]
    clusters: Sequence[Cluster]
    queues: Sequence[Queue]
    projects: Sequence[Project]
    ready_heads: Mapping[LaneId, TaskId]
    """Oldest pending task of every lane that has one."""
    ready_ends: Mapping[LaneId, TaskId]
    """Newest pending task of the lanes whose queue is last in first out."""
    pulls: Sequence[OpenPull] = ()

    @property
    def paused_queues(self) -> set[str]:
        return {queue.name for queue in self.queues if queue.is_paused}


class ReadyTaskStore(Protocol):
    """Access to ready tasks, the durable side of the ready index; to tasks that have come due, and to parked tasks.

    `TaskStore.change_tasks` parks tasks; a task that is ready or final is no longer parked.
    """

    async def ready_lanes(self) -> list[LaneId]:
        """Return the lanes that have pending tasks."""
        ...

    async def ready_heads(self, lane: LaneId, limit: int) -> list[TaskId]:
        """Return the oldest pending tasks of a lane: always from its head, as ids are not in commit order."""
        ...

    async def ready_ends(self, lane: LaneId, limit: int) -> list[TaskId]:
        """Return the newest pending tasks of a lane, newest first."""
        ...

    async def ready_parts(
        self, oldest: Sequence[LaneId], newest: Sequence[LaneId], limit: int
    ) -> dict[LaneId, list[TaskId]]:
        """Return the heads of some lanes and the ends of others, read in one transaction."""
        ...

    async def due_tasks(self, now: Instant, limit: int) -> list[TaskId]:
        """Return waiting or retrying tasks whose time has come and that wait for no parent."""
        ...

    async def overdue_tasks(self, now: Instant, limit: int, after: HeldTask | None = None) -> list[HeldTask]:
        """Return held tasks past their hard deadline that were not recalled yet, by node and id.

        `after` is the last one seen.
        """
        ...

    async def placement_view(self) -> PlacementView:
        """Read what the dispatcher needs once a second, in one transaction."""
        ...

    async def parked_tasks(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, ParkedTask]:
        """Return the parking records of those tasks that are parked now."""
        ...

    async def parked_times(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, int]:
        """Return how often each task was parked in its round; only for tasks that were parked."""
        ...

    async def parked_for(self, cause: ParkCause, subject: str, limit: int) -> list[TaskId]:
        """Return tasks that are parked for this subject, those that wait longest first."""
        ...

    async def parked_in_vain(self, now: Instant, limit: int) -> list[TaskId]:
        """Return tasks parked for a host whose back-off ended early, for example because a person ended it."""
        ...


class QueueStore(Protocol):
    """Access to queues with their order and pauses."""

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        """Pause or resume a queue; True when that changed something."""
        ...

    async def paused_queues(self) -> set[str]: ...

    async def set_queue_order(self, queue: str, is_lifo: bool, now: Instant) -> bool:
        """Set the order of a queue; True when that changed something."""
        ...

    async def list_queues(self) -> list[Queue]:
        """Return the queues that a person paused, resumed or ordered, by name."""
        ...


class Preemption(NamedTuple):
    """An execution to be stopped so that the task `waiter` gets its slot."""

    task: TaskId
    execution: ExecutionId
    round: int
    node: NodeId
    waiter: TaskId


class Stopping(NamedTuple):
    """A preempted execution that has not ended yet."""

    task: TaskId
    node: NodeId
    lane: LaneId
    waiter: TaskId


class Preempted(NamedTuple):
    """The preemptions of a task in its current round."""

    times: int
    waiter: TaskId
    """Id of the task that the last preemption was made for."""


class PreemptionStore(Protocol):
    """Access to preemptions: which executions were recalled for which waiting tasks."""

    async def preempt_executions(self, chosen: Sequence[Preemption], term: int, now: Instant) -> Applied:
        """Recall executions. One that is no longer held under that execution, or is recalled already, is refused."""
        ...

    async def stopping_executions(self, waiter: TaskId | None = None) -> list[Stopping]:
        """Return preempted executions that have not ended, for all waiting tasks or for one."""
        ...

    async def task_preemptions(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, Preempted]:
        """Return the preemptions of those tasks that were preempted in their current round."""
        ...

    async def preemptions_since(self, at: Instant) -> int: ...
