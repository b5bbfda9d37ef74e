"""Tasks and their transitions: added, assigned, ended, changed. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.execution import Outcome
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.requirement import Lane, LaneId
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import LiveTask
from crawlfleet.model.transition import Decide
from crawlfleet.ports.group_store import NewGroup
from crawlfleet.ports.idempotency import Claim


class NewTask(NamedTuple):
    id: TaskId
    project: str
    workflow: str | None
    name: str | None
    created_at: Instant
    parameters: bytes
    spec: bytes | None
    lane: LaneId
    priority: int
    timeout_s: int
    due_at: Instant | None = None
    parents: tuple[TaskId, ...] = ()
    group: GroupId | None = None


class Submission(NamedTuple):
    """One caller's tasks. Refusals found before the store stand in their place."""

    items: Sequence[NewTask | Refusal]
    is_atomic: bool = False
    claim: Claim | None = None
    group: NewGroup | None = None
    """Made with its first members: all of it or nothing."""
    limited: Collection[str] = ()
    """Projects among those of its tasks that have quotas on what waits: above one, none of its tasks is taken."""


class Accepted(NamedTuple):
    id: TaskId
    status: TaskStatus
    created_at: Instant
    priority: int


@dataclass(frozen=True, slots=True)
class SubmissionAnswer:
    items: Sequence[Accepted | Refusal]
    is_replay: bool = False
    group: GroupId | None = None
    """The one that was made."""
    over_quota: str | None = None
    """Which quota has no room for them: none was taken."""
    renews_at: Instant | None = None
    """When that quota begins anew, where it is a daily one."""


@dataclass(frozen=True, slots=True)
class Added:
    answers: Sequence[SubmissionAnswer]
    ready: Mapping[LaneId, Sequence[TaskId]]


class Assignment(NamedTuple):
    task: TaskId
    lane: LaneId
    execution: ExecutionId
    node: NodeId
    session: int


@dataclass(slots=True)
class Applied:
    """What a transition did, for the answer and for the broker's hints."""

    after: dict[TaskId, TaskStatus] = field(default_factory=dict)
    refused: dict[TaskId, Refusal] = field(default_factory=dict)
    ready: dict[LaneId, list[TaskId]] = field(default_factory=dict)
    freed: list[tuple[NodeId, ExecutionId]] = field(default_factory=list)
    told: set[NodeId] = field(default_factory=set)
    """Nodes that have something new to hear: a recall."""


class Delivery(NamedTuple):
    """What a node needs to run a task."""

    task: TaskId
    task_type: str
    parameters: bytes
    is_metered: bool = False
    """Its project has daily quotas."""


class TaskStore(Protocol):
    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        """Make the lanes known, so that tasks can be added to them within `LANE_FRESH_S`; doing it again changes
        nothing else."""
        ...

    async def add(self, submissions: Sequence[Submission], now: Instant) -> Added:
        """Store new tasks: pending, or waiting for a time or for parents.

        An atomic submission with one bad item adds none. A known idempotency key gives its first answer again,
        or IDEMPOTENCY_MISMATCH for every item when the body differs. A parent that ended other than completed
        cancels the new task at once, with the reason; one that does not exist refuses it. So does a group that does
        not exist, is closed or is of another project. A submission with a new group is atomic.
        """
        ...

    async def kept_answer(self, claim: Claim, items: int, now: Instant) -> SubmissionAnswer | None:
        """What `add` would say again to so many items under this key; None when the key is not known."""
        ...

    async def assign(
        self, batch: Sequence[Assignment], term: int | None, now: Instant, fences: Mapping[str, int] | None = None
    ) -> Applied:
        """pending -> assigned, for tasks still pending and nodes whose session is open and takes work.

        With the `fences` of their projects (0: nobody described it), tasks of a project that has another one by now
        are refused with OVER_QUOTA: what was counted on is not so any more.
        """
        ...

    async def complete(self, outcomes: Sequence[Outcome], now: Instant) -> Applied:
        """The hot path of a finished execution that needs no decision: held -> completed, fenced by execution."""
        ...

    async def change(self, tasks: Sequence[TaskId], decide: Decide, now: Instant, term: int | None = None) -> Applied:
        """Any other transition: each live row is locked, decided upon, checked against the table, written.

        A task that is final is refused with ALREADY_FINAL, an unknown one with UNKNOWN_TASK. When a task becomes
        final its dependants are released or cancelled in the same transaction.
        """
        ...

    async def reopen(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        """A person's retry: the next round of final tasks, with fresh retries; NOT_FINAL for others."""
        ...

    async def live(self, tasks: Sequence[TaskId]) -> dict[TaskId, LiveTask]: ...

    async def held(self, nodes: Sequence[NodeId]) -> dict[NodeId, list[LiveTask]]:
        """What the store has given to each node."""
        ...

    async def deliveries(self, tasks: Sequence[TaskId]) -> dict[TaskId, Delivery]: ...

    async def drop(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        """Forget final tasks with their executions and dead letters; NOT_FINAL for others."""
        ...
