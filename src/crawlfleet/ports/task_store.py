"""Tasks and their transitions, the idempotency keys of requests, and the reading of stored tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.errors import InvalidInput
from crawlfleet.model.crawl import CrawlLimits, CrawlUrl
from crawlfleet.model.execution import ExecutionRecord, Outcome
from crawlfleet.model.group import GroupKind
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.queue import Lane, LaneId
from crawlfleet.model.refusal import Refusal
from crawlfleet.model.status import TaskStatus
from crawlfleet.model.task import DeadLetter, DeadLetterGroup, DecideTransition, LiveTask, TaskRecord
from crawlfleet.ports.record_page import RecordPage


class Claim(NamedTuple):
    """An idempotency key with the hash of its request: the first answer under it is kept and given again.

    A request that is repeated under its key changes nothing a second time.
    """

    scope: str
    key: str
    body_hash: bytes
    expires_at: Instant
    """Instant until which the key and its answer are kept."""


class IdempotencyMismatch(InvalidInput):
    """Raised for a known idempotency key that comes with another body."""

    code = "idempotency_mismatch"

    def __init__(self) -> None:
        super().__init__("this idempotency key was used with another body", field="Idempotency-Key")


class NewCrawl(NamedTuple):
    """A crawl over many nodes that is to be started."""

    limits: CrawlLimits
    seeds: Sequence[CrawlUrl]


class NewGroup(NamedTuple):
    """A group that is to be made."""

    id: GroupId
    project: str
    name: str | None = None
    kind: GroupKind = GroupKind.GROUP
    is_closed: bool = False
    """Whether no further members may be added."""
    spec: bytes | None = None
    """Specification of a group that was made from one task, as JSON."""
    crawl: NewCrawl | None = None
    """The crawl over many nodes whose members the group holds."""


class NewTask(NamedTuple):
    """A checked task that is to be added."""

    id: TaskId
    project: str
    workflow: str | None
    name: str | None
    created_at: Instant
    parameters: bytes
    spec: bytes | None
    """Further fields of the task as JSON; None for none."""
    lane: LaneId
    priority: int
    timeout_s: int
    due_at: Instant | None = None
    """Instant before which the task is not ready."""
    parents: tuple[TaskId, ...] = ()
    group: GroupId | None = None


class Submission(NamedTuple):
    """The tasks of one request. Items that were refused before they reached the store stay at their position."""

    items: Sequence[NewTask | Refusal]
    is_atomic: bool = False
    claim: Claim | None = None
    group: NewGroup | None = None
    """Group to make with its first members: all of it or nothing."""
    limited: Collection[str] = ()
    """Those projects of its tasks that have quotas on waiting tasks: if one is exceeded, no task is accepted."""


class Accepted(NamedTuple):
    """The answer to an accepted task."""

    id: TaskId
    status: TaskStatus
    created_at: Instant
    priority: int


@dataclass(frozen=True, slots=True)
class SubmissionAnswer:
    """The answer to a submission."""

    items: Sequence[Accepted | Refusal]
    is_replay: bool = False
    """Whether this is the stored answer to an earlier request under the same idempotency key."""
    group: GroupId | None = None
    """Id of the group that was made."""
    over_quota: str | None = None
    """Quota that has no capacity left for the tasks; then none was accepted."""
    renews_at: Instant | None = None
    """Instant at which that quota begins anew, where it is a daily one."""


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding submissions: the answers, and the ready tasks for the broker."""

    answers: Sequence[SubmissionAnswer]
    ready: Mapping[LaneId, Sequence[TaskId]]


class Assignment(NamedTuple):
    """The order to run a task on a node in a session."""

    task: TaskId
    lane: LaneId
    execution: ExecutionId
    node: NodeId
    session: int


@dataclass(slots=True)
class Applied:
    """The effects of transitions, for the answer and for the broker's hints."""

    after: dict[TaskId, TaskStatus] = field(default_factory=dict)
    """Status of each changed task after its transition."""
    refused: dict[TaskId, Refusal] = field(default_factory=dict)
    ready: dict[LaneId, list[TaskId]] = field(default_factory=dict)
    """Tasks that became ready, by lane."""
    freed: list[tuple[NodeId, ExecutionId]] = field(default_factory=list)
    """Executions whose slots became free."""
    nodes_to_wake: set[NodeId] = field(default_factory=set)
    """Nodes for which there is a new recall."""


class Delivery(NamedTuple):
    """The data that a node needs to run a task."""

    task: TaskId
    task_type: str
    parameters: bytes
    is_metered: bool = False
    """Whether the task's project has daily quotas."""
    traceparent: str = ""
    """Context of the span that submitted the task; empty if it was not sampled."""


class TaskStore(Protocol):
    """Access to tasks and their transitions: add, assign, complete, change. The rules are those of `ports.store`."""

    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        """Store the lanes, so that tasks can be added to them within `LANE_FRESH_S`.

        Doing it again changes nothing else.
        """
        ...

    async def load_lanes(self, ids: Sequence[LaneId]) -> list[Lane]: ...

    async def add_tasks(self, submissions: Sequence[Submission], now: Instant) -> Added:
        """Store new tasks: pending, or waiting for a time or for parents.

        An atomic submission with one bad item adds none. A known idempotency key gives its first answer again,
        or IDEMPOTENCY_MISMATCH for every item when the body differs. A parent that ended other than completed
        cancels the new task at once, with the reason; one that does not exist refuses it. So does a group that does
        not exist, is closed or is of another project. A submission with a new group is atomic.
        """
        ...

    async def stored_answer(self, claim: Claim, items: int, now: Instant) -> SubmissionAnswer | None:
        """Return the answer that `add_tasks` would give again to this number of items; None for an unknown key."""
        ...

    async def assign_tasks(
        self,
        batch: Sequence[Assignment],
        term: int | None,
        now: Instant,
        fences: Mapping[str, int] | None = None,
        pulls: Mapping[NodeId, int] | None = None,
    ) -> Applied:
        """Change tasks pending -> assigned, if they are still pending and the node's session is open and takes work.

        With the `fences` of their projects (0: never configured), tasks of a project that has another fence by now
        are refused with OVER_QUOTA: the count that the leader relied on is no longer valid. `pulls` has the number of
        the open pull of each node that only pulls: when another one is open by now, or none, its tasks are refused with
        NODE_NOT_READY.
        """
        ...

    async def complete_executions(self, outcomes: Sequence[Outcome], now: Instant) -> Applied:
        """Complete executions that need no decision, the hot path: held -> completed, fenced by execution."""
        ...

    async def change_tasks(
        self, tasks: Sequence[TaskId], decide: DecideTransition, now: Instant, term: int | None = None
    ) -> Applied:
        """Make any other transition: each live row is locked, decided upon, checked against the table, written.

        A task that is final is refused with ALREADY_FINAL, an unknown one with UNKNOWN_TASK. When a task becomes
        final its dependants are released or cancelled in the same transaction.
        """
        ...

    async def reopen_tasks(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        """Begin the next round of final tasks with fresh retries, for a person's retry; NOT_FINAL for others."""
        ...

    async def live_tasks(self, tasks: Sequence[TaskId]) -> dict[TaskId, LiveTask]: ...

    async def held_tasks(self, nodes: Sequence[NodeId]) -> dict[NodeId, list[LiveTask]]:
        """Return the tasks that the store has given to each node."""
        ...

    async def load_deliveries(self, tasks: Sequence[TaskId]) -> dict[TaskId, Delivery]: ...

    async def drop_tasks(self, tasks: Sequence[TaskId], now: Instant) -> Applied:
        """Remove final tasks with their executions and dead letters; NOT_FINAL for others."""
        ...


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The conditions of a list of tasks."""

    statuses: tuple[TaskStatus, ...] = ()
    project: str | None = None
    workflow: str | None = None
    task_type: str | None = None
    queue: str | None = None
    node: NodeId | None = None
    name_prefix: str | None = None
    group: GroupId | None = None


class TaskPage(NamedTuple):
    """A page of a list of tasks."""

    tasks: Sequence[TaskRecord]
    before: TaskId | None
    """Cursor of the next page; None at the end."""
    searched_to: TaskId | None = None
    """Id at which a search stopped though there is more: a page costs a bounded number of rows, however rare its
    matches."""


class TaskReadStore(Protocol):
    """Read access for people to stored tasks by filter, their executions, and dead letters.

    Pages are newest first; the cursor is the last id seen.
    """

    async def load_tasks(self, ids: Sequence[TaskId], *, with_parameters: bool = True) -> dict[TaskId, TaskRecord]: ...

    async def list_tasks(self, where: TaskFilter, limit: int, before: TaskId | None = None) -> list[TaskRecord]: ...

    async def find_tasks(
        self,
        where: TaskFilter,
        limit: int,
        before: TaskId | None = None,
        text: str | None = None,
        *,
        with_parameters: bool = False,
    ) -> TaskPage:
        """Return a page that costs a bounded number of rows and bytes.

        `text` is the beginning of an id or of a name, or a part of the host of a URL in the parameters. Records have
        their parameters only `with_parameters`.
        """
        ...

    async def task_executions(self, task: TaskId) -> list[ExecutionRecord]:
        """Return the last hundred executions of a task, oldest first."""
        ...

    async def execution_page(self, task: TaskId, limit: int, after: ExecutionId = 0) -> RecordPage[ExecutionRecord]:
        """Return a page of the executions of a task, oldest first."""
        ...

    async def awaited_parents(self, task: TaskId) -> dict[TaskId, TaskStatus | None]:
        """Return the parents that a waiting task still waits for, with their status."""
        ...

    async def dead_letters(
        self, limit: int, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]: ...

    async def dead_letter_groups(self, project: str | None = None) -> list[DeadLetterGroup]: ...
