"""Tasks: the live row that changes, its transitions, the final row that stays, and the record people read.

A transition is decided by pure code and written unchanged by the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.event import Kind
from crawlfleet.model.execution import Failure, ParkCause
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import LaneId
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import ExecutionStatus, Recall, TaskStatus

# Looking an enum member up costs as much as making the row it is in.
_NO_RECALL = Recall.NONE


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retry policy of a task: how often it is retried, and after which back-off."""

    max_retries: int = 3
    base_delay_s: float = 2.0
    """Back-off before the first retry."""
    max_delay_s: float = 300.0
    """Longest back-off."""


class LiveTask(NamedTuple):
    """The narrow hot row of a task that is not final. `node` and `execution` are 0 while no node holds it."""

    id: TaskId
    status: TaskStatus
    """Status of the task, never a final one in the store."""
    lane: LaneId
    """Id of the lane: queue, project, priority and requirement of the task."""
    round: int
    """Number of the round, from 1 on; a person's retry begins the next one."""
    retries: int
    """Number of retries used in this round, which the user's retry policy limits."""
    losses: int
    """Number of executions lost with their node or their shared process: they cost no retry."""
    deaths: int
    """Number of deaths in an isolated process: three make the task poison."""
    waits: int
    """Number of parents that have not completed yet."""
    due_at: Instant | None
    """Instant before which a waiting or retrying task is not ready; None for none."""
    timeout_s: int
    """Longest duration of one execution."""
    recall: Recall
    """Reason for which the node is ordered to stop the execution; NONE without an order."""
    node: NodeId = 0
    """Id of the node that holds the task."""
    session: int = 0
    """Number of the node's session that holds the task."""
    execution: ExecutionId = 0
    """Id of the live execution, which is the fence of its reports."""
    assigned_at: Instant | None = None
    """Instant at which the live execution was assigned."""
    started_at: Instant | None = None
    """Instant at which the live execution started; None until its node reports it."""
    deadline_at: Instant | None = None
    """Hard deadline of the live execution, after which it is recalled."""
    group: GroupId | None = None
    """Id of the group that the task is a member of."""
    ready_at: Instant | None = None
    """Instant at which the task became pending the last time; None if it never was."""

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
        ready_at: Instant | None = None,
    ) -> LiveTask:
        """Make the first row of a task's round: on no node, nothing used up yet."""
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
            ready_at=ready_at,
        )

    def without_node(self, status: TaskStatus, **changes: object) -> LiveTask:
        """Return this row without a node."""
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


class ParkedTask(NamedTuple):
    """The record of a parked task, for as long as it is parked: a waiting task that gave its slot back."""

    cause: ParkCause
    subject: str
    until: Instant
    """Instant until which the cause lasts. The task is ready a little later, as others wait for the same."""
    times: int
    """Number of times that the task was parked in this round, this one included."""
    message: str
    """Message of the node."""


class TaskTransition(NamedTuple):
    """The effect of one transition on one task."""

    after: LiveTask
    """Row after the transition; with a final status the task leaves the live table."""
    kind: Kind
    """Kind of the event that records the transition."""
    ended: ExecutionStatus | None = None
    """Status in which the execution that held the task ended; None when there was none or it continues."""
    failure: Failure | None = None
    result: bytes | None = None
    metrics: bytes | None = None
    reason: str | None = None
    is_dead_letter: bool = False
    """Whether the task becomes a dead letter."""
    started_at: Instant | None = None
    """Instant at which the execution started, as its node reports it, where that was not known before."""
    parking: ParkedTask | None = None
    """Record of what the task waits for from now on, when it is parked."""
    used: Amounts | None = None
    """Amounts that the execution used of its project's day, where it reports them."""


DecideTransition = Callable[[LiveTask, RetryPolicy], TaskTransition | Refusal]
"""Decision about a transition, called inside the store's transaction with a row that is locked against other changes.
Must be pure."""


class FinalTask(NamedTuple):
    """The row of a task that is final, until a person opens its next round."""

    id: TaskId
    status: TaskStatus
    """Final status of the task."""
    lane: LaneId
    """Id of the lane: queue, project, priority and requirement of the task."""
    round: int
    """Number of the round that ended."""
    retries: int
    """Number of retries used in the round."""
    losses: int
    """Number of executions of the round lost with their node or their shared process."""
    deaths: int
    """Number of deaths in an isolated process in the round."""
    timeout_s: int
    """Longest duration of one execution."""
    node: NodeId
    """Id of the node of the last execution; 0 when no node held the task at its end."""
    execution: ExecutionId
    """Id of the last execution; 0 when no node held the task at its end."""
    assigned_at: Instant | None
    """Instant at which the last execution was assigned."""
    started_at: Instant | None
    """Instant at which the last execution started."""
    ended_at: Instant
    """Instant at which the task became final."""
    reason: str | None
    """Reason of the end, for people."""
    group: GroupId | None = None
    """Id of the group that the task is a member of."""

    @classmethod
    def from_live(cls, task: LiveTask, reason: str | None, now: Instant) -> FinalTask:
        """Make the final row of a task that ended with the status of this live row."""
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
    """Everything about one task, for people. Fields of both kinds of rows are documented there."""

    id: TaskId
    project: str
    workflow: str | None
    """Workflow that the submitter named; None for none."""
    name: str | None
    task_type: str
    queue: str
    priority: int
    created_at: Instant
    parameters: bytes
    """Parameters of the task, as JSON."""
    spec: bytes | None
    """Further fields of the task, as JSON; None for none."""
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
    """Id of the node that holds the task or held it last."""
    execution: ExecutionId | None
    """Id of the live or last execution."""
    assigned_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    reason: str | None
    lane: LaneId
    group: GroupId | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that ended as failed or timeout, kept for a person to replay or drop."""

    task: TaskId
    round: int
    project: str
    task_type: str
    cause: str
    """Error message without numbers and ids, by which dead letters are counted together."""
    failure: Failure | None
    buried_at: Instant
    """Instant at which the task became a dead letter."""


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """The dead letters of one cause."""

    cause: str
    count: int
    newest_at: Instant
    example: TaskId
    """Id of one of these tasks."""
