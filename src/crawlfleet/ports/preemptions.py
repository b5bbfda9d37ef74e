"""Making room: which executions were asked to stop for which waiting tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import LaneId
from crawlfleet.ports.task_store import Applied


class Preemption(NamedTuple):
    """An execution to be stopped so that `waiter` finds room."""

    task: TaskId
    execution: ExecutionId
    round: int
    node: NodeId
    waiter: TaskId


class Stopping(NamedTuple):
    """One that was asked and has not ended yet."""

    task: TaskId
    node: NodeId
    lane: LaneId
    waiter: TaskId


class Preempted(NamedTuple):
    """What is known of a task that was asked to make room in this round."""

    times: int
    waiter: TaskId
    """For whom, the last time."""


class Preemptions(Protocol):
    async def preempt(self, chosen: Sequence[Preemption], term: int, now: Instant) -> Applied:
        """Recall them. One that is not held under that execution any more, or recalled already, is refused."""
        ...

    async def stopping(self, waiter: TaskId | None = None) -> list[Stopping]:
        """For all who wait, or for one."""
        ...

    async def preempted(self, tasks: Sequence[TaskId]) -> Mapping[TaskId, Preempted]:
        """Those of them that were, in the round they are in."""
        ...

    async def preemptions_since(self, at: Instant) -> int: ...
