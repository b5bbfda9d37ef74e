"""Tasks: the live row that moves, the final row that stays, and the record people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.execution import Failure
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import LaneId
from crawlfleet.model.status import Recall, TaskStatus

# Looking a member up costs as much as making the row it is in.
_NO_RECALL = Recall.NONE


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    max_retries: int = 3
    base_delay_s: float = 2.0
    max_delay_s: float = 300.0


class LiveTask(NamedTuple):
    """The narrow hot row of a task that is not final. `node` and `execution` are 0 while no node holds it."""

    id: TaskId
    status: TaskStatus
    lane: LaneId
    round: int
    retries: int
    """Retries used in this round: what the user's policy counts."""
    losses: int
    """Executions lost with their node or their shared process: they cost no retry."""
    deaths: int
    """Deaths alone in a process of its own: three make it poison."""
    waits: int
    """Parents that have not completed yet."""
    due_at: Instant | None
    timeout_s: int
    recall: Recall
    node: NodeId = 0
    session: int = 0
    execution: ExecutionId = 0
    assigned_at: Instant | None = None
    started_at: Instant | None = None
    deadline_at: Instant | None = None
    group: GroupId | None = None

    @classmethod
    def new(
        cls,
        id: TaskId,
        lane: LaneId,
        timeout_s: int,
        *,
        status: TaskStatus = TaskStatus.PENDING,
        round: int = 1,
        waits: int = 0,
        due_at: Instant | None = None,
        group: GroupId | None = None,
    ) -> LiveTask:
        """The first row of a task's round: on no node, nothing used up yet."""
        return cls(
            id=id,
            status=status,
            lane=lane,
            round=round,
            retries=0,
            losses=0,
            deaths=0,
            waits=waits,
            due_at=due_at,
            timeout_s=timeout_s,
            recall=_NO_RECALL,
            group=group,
        )

    def unheld(self, status: TaskStatus, **changes: object) -> LiveTask:
        """This row off its node."""
        return self._replace(
            status=status,
            recall=Recall.NONE,
            node=0,
            session=0,
            execution=0,
            assigned_at=None,
            started_at=None,
            deadline_at=None,
            **changes,  # type: ignore[arg-type]
        )


class FinalTask(NamedTuple):
    """The row of a task that is final, until a person opens its next round."""

    id: TaskId
    status: TaskStatus
    lane: LaneId
    round: int
    retries: int
    losses: int
    deaths: int
    timeout_s: int
    node: NodeId
    execution: ExecutionId
    assigned_at: Instant | None
    started_at: Instant | None
    ended_at: Instant
    reason: str | None
    group: GroupId | None = None

    @classmethod
    def of(cls, task: LiveTask, reason: str | None, now: Instant) -> FinalTask:
        """The final row of a task that ended as this row says."""
        return cls(
            id=task.id,
            status=task.status,
            lane=task.lane,
            round=task.round,
            retries=task.retries,
            losses=task.losses,
            deaths=task.deaths,
            timeout_s=task.timeout_s,
            node=task.node,
            execution=task.execution,
            assigned_at=task.assigned_at,
            started_at=task.started_at,
            ended_at=now,
            reason=reason,
            group=task.group,
        )


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Everything about one task, for people."""

    id: TaskId
    project: str
    workflow: str | None
    name: str | None
    task_type: str
    queue: str
    priority: int
    created_at: Instant
    parameters: bytes
    spec: bytes | None
    status: TaskStatus
    round: int
    retries: int
    losses: int
    deaths: int
    waits: int
    due_at: Instant | None
    timeout_s: int
    recall: Recall
    node: NodeId | None
    execution: ExecutionId | None
    assigned_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    reason: str | None
    lane: LaneId
    group: GroupId | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    task: TaskId
    round: int
    project: str
    task_type: str
    cause: str
    failure: Failure | None
    buried_at: Instant


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    cause: str
    count: int
    newest_at: Instant
    example: TaskId
