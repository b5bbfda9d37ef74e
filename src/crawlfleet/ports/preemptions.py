"""Preemption: which executions were recalled for which waiting tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.ports.task_store import Applied


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


class Preemptions(Protocol):
    """Access to preemptions."""

    async def preempt(self, chosen: Sequence[Preemption], term: int, now: Instant) -> Applied:
        """Recall executions. One that is no longer held under that execution, or is recalled already, is refused."""
        ...

    async def stopping(self, waiter: TaskId | None = None) -> list[Stopping]:
        """Return preempted executions that have not ended, for all waiting tasks or for one."""
        ...

    async def preempted(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, Preempted]:
        """Return the preemptions of those tasks that were preempted in their current round."""
        ...

    async def preemptions_since(self, at: Instant) -> int: ...
