"""The store: truth. Every change of state is one conditional batch transition in one transaction.

Rules every method keeps:
- one transaction, with its events and its counter deltas in it; it returns after the commit is on disk
- a bad item is a Refusal in the answer and changes nothing; its neighbours go on
- `term`, where given, is checked inside the transaction: an older term raises NotLeader and writes nothing
- StoreUnavailable: nothing was written. OutcomeUnknown: read the ids again before deciding
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from crawlfleet.model.answers import Refusal
from crawlfleet.model.event import Event, EventBatch
from crawlfleet.model.execution import ExecutionRecord, Outcome
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import Cluster, Node, NodeDescription
from crawlfleet.model.requirement import Lane, LaneId
from crawlfleet.model.status import Health, NodeStatus, TaskStatus
from crawlfleet.model.step import Decide
from crawlfleet.model.task import DeadLetter, DeadLetterGroup, LiveTask, TaskRecord
from crawlfleet.ports.identity import AuditStore, ConfigStore, TokenStore, TypeStore


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


class Claim(NamedTuple):
    """An idempotency key: the first answer under it is kept and given again."""

    scope: str
    key: str
    body_hash: bytes
    expires_at: Instant


class Submission(NamedTuple):
    """One caller's tasks. Refusals found before the store stand in their place."""

    items: Sequence[NewTask | Refusal]
    is_atomic: bool = False
    claim: Claim | None = None


class Accepted(NamedTuple):
    id: TaskId
    status: TaskStatus
    created_at: Instant
    priority: int


@dataclass(frozen=True, slots=True)
class SubmissionAnswer:
    items: Sequence[Accepted | Refusal]
    is_replay: bool = False


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
    freed: list[tuple[NodeId, TaskId]] = field(default_factory=list)
    told: set[NodeId] = field(default_factory=set)
    """Nodes that have something new to hear: a recall."""


class Delivery(NamedTuple):
    """What a node needs to run a task."""

    task: TaskId
    task_type: str
    parameters: bytes


class TaskStore(Protocol):
    async def ensure_lanes(self, lanes: Sequence[Lane]) -> None:
        """Make the lanes known; doing it again changes nothing."""
        ...

    async def add(self, submissions: Sequence[Submission], now: Instant) -> Added:
        """Store new tasks: pending, or waiting for a time or for parents.

        An atomic submission with one bad item adds none. A known idempotency key gives its first answer again,
        or IDEMPOTENCY_MISMATCH for every item when the body differs. A parent that ended other than completed
        cancels the new task at once, with the reason; one that does not exist refuses it.
        """
        ...

    async def kept_answer(self, claim: Claim, items: int, now: Instant) -> SubmissionAnswer | None:
        """What `add` would say again to so many items under this key; None when the key is not known."""
        ...

    async def assign(self, batch: Sequence[Assignment], term: int | None, now: Instant) -> Applied:
        """pending -> assigned, for tasks still pending and nodes whose session is open and takes work."""
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

    async def overdue(self, now: Instant, limit: int) -> list[TaskId]:
        """Held tasks past their hard deadline that were not recalled yet."""
        ...

    async def set_queue_paused(self, queue: str, is_paused: bool, now: Instant) -> bool:
        """True when that changed something."""
        ...

    async def paused_queues(self) -> set[str]: ...


class NewNode(NamedTuple):
    id: NodeId
    join_key: str
    secret_hash: str
    description: NodeDescription
    enrolment: str | None = None
    """Hash of the enrol token it joins with: one use of it, spent in the same transaction."""
    claim: Claim | None = None


class Renewal(NamedTuple):
    node: NodeId
    session: int
    number: int
    measurement: bytes | None


class Renewed(NamedTuple):
    """The node's row after its renewal; `is_open` false: the session is over; `is_newest` false: an older number."""

    node: NodeId
    is_open: bool
    is_newest: bool
    status: NodeStatus
    slots_wanted: int | None
    drain_by: Instant | None
    is_removed: bool
    came_online: bool = False
    held: Sequence[LiveTask] = ()
    """What the store gives the node, read in the same transaction."""


class PlacementView(NamedTuple):
    nodes: Sequence[Node]
    clusters: Sequence[Cluster]
    paused_queues: set[str]
    ready_heads: Mapping[LaneId, TaskId]
    """The oldest pending task of every lane that has one."""


class LeaseRow(NamedTuple):
    node: NodeId
    session: int
    renewals: int
    lease_ms: int


class NodeStore(Protocol):
    async def register(self, node: NewNode, now: Instant) -> NodeId:
        """A new node, pending. The same join key again is the same node, with the new secret and what it says now.

        A lease it holds keeps its length until the next session. Its cluster comes into being with its first node.
        An enrolment costs a node that is known already nothing: it asks again, as its first answer was lost.
        Raises Conflict when the `device_id` is another node's, NotAllowed when the enrolment is over or used up,
        IdempotencyMismatch when the claim's key was used with another body.
        """
        ...

    async def announce(self, node: NodeId, description: NodeDescription, now: Instant, join_key: str | None) -> None:
        """What a known node says of itself now; its secret stays. Raises NotFound for one that is unknown or removed,
        NotAllowed when the `join_key` is not its own, Conflict when the `device_id` is another node's."""
        ...

    async def secret_hash(self, node: NodeId) -> str | None:
        """None for a node that is unknown or removed."""
        ...

    async def node_by_secret(self, secret_hash: str) -> NodeId | None: ...

    async def node_by_device(self, device_id: str) -> NodeId | None: ...

    async def open_session(
        self, node: NodeId, slots: int, task_types: Sequence[str], decide: Decide, now: Instant,
        *, after: int | None = None,
    ) -> tuple[int, Applied | None]:  # fmt: skip
        """End the node's session and what it held, begin the next one; its number. Raises NotFound.

        With `after`, only if that is still the newest session; otherwise nothing changes and the newest is told.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal], now: Instant) -> list[Renewed]:
        """Raise the lease counters of open sessions, in order; a session that is over is answered, not renewed."""
        ...

    async def end_session(
        self, node: NodeId, session: int, status: NodeStatus, decide: Decide, now: Instant,
        *, renewals: int | None = None, term: int | None = None,
    ) -> Applied | None:  # fmt: skip
        """Close a session and take back what it holds. None when it is not open, or was renewed meanwhile."""
        ...

    async def leases(self) -> list[LeaseRow]:
        """The open sessions."""
        ...

    async def hold(self, node: NodeId, drain_by: Instant | None, is_held: bool, now: Instant) -> bool:
        """Put a node into maintenance (drain until `drain_by`) or back; False when it is unknown."""
        ...

    async def set_slots(self, node: NodeId, slots: int | None, now: Instant) -> bool: ...

    async def set_health(
        self, changes: Sequence[tuple[NodeId, Health, Mapping[str, object]]], term: int, now: Instant
    ) -> None: ...

    async def note_heartbeats(self, samples: Sequence[tuple[NodeId, bytes]], term: int, now: Instant) -> None:
        """Keep a sample of measurements for history."""
        ...

    async def unregister(self, node: NodeId, now: Instant) -> None:
        """Remove a node: secret revoked, history kept. Raises NotFound.

        An open session is renewed no more: what it holds is free when its lease has ended, not before.
        """
        ...

    async def nodes(self, ids: Sequence[NodeId] | None = None) -> list[Node]:
        """Nodes that are not removed (or those named, removed ones among them)."""
        ...

    async def placement_view(self) -> PlacementView:
        """What the dispatcher looks at once a second, in one go."""
        ...

    async def clusters(self) -> list[Cluster]: ...

    async def put_cluster(self, cluster: Cluster, now: Instant) -> None: ...


class LeaderRow(NamedTuple):
    term: int
    holder: str
    beats: int


class Leadership(Protocol):
    """One row with a term. Holder and challengers judge it by their own monotonic clocks, never by wall time."""

    async def leader(self) -> LeaderRow: ...

    async def campaign(self, holder: str, seen: LeaderRow, now: Instant) -> int | None:
        """Take the next term if the row still is as it was seen; None when somebody was faster."""
        ...

    async def beat(self, term: int) -> bool:
        """Show that the leader lives; False when its term is over."""
        ...

    async def resign(self, term: int) -> None: ...

    async def register_master(self, name: str, now: Instant) -> int:
        """Note the start of a master; the number of this start, for its ids."""
        ...


class EventStore(Protocol):
    async def relay(self, term: int, limit: int) -> int:
        """Number committed outbox rows (at most `limit` rows) and move them to the log; the last number, or 0."""
        ...

    async def events_after(self, number: int, limit: int) -> list[Event]: ...

    async def last_event(self) -> int: ...

    async def record(self, batches: Sequence[EventBatch], now: Instant, term: int | None = None) -> None:
        """Events that belong to no other transition."""
        ...


KEEP_AUDIT_MS = 365 * 86_400_000


class Pruned(NamedTuple):
    tasks: Sequence[TaskId] = ()
    """What they left in other places can go as well."""
    rows: int = 0
    """How many went in all; those tasks are one each."""


class Upkeep(Protocol):
    async def fold_counters(self, term: int) -> int:
        """Fold counter deltas into their counters; how many rows were folded."""
        ...

    async def totals(self, project: str | None = None) -> dict[TaskStatus, int]:
        """Tasks by status, from the counters; exact at any moment, in constant time."""
        ...

    async def count_rows(self, project: str | None = None) -> dict[TaskStatus, int]:
        """The same by counting rows: slow, for the reconciler and for checks."""
        ...

    async def prune(
        self, term: int, now: Instant, keep_tasks_ms: int, keep_events_ms: int, limit: int,
        *, keep_audit_ms: int = KEEP_AUDIT_MS,
    ) -> Pruned:  # fmt: skip
        """Drop what retention no longer keeps, at most `limit` tasks and as many entries of the audit log."""
        ...


@dataclass(frozen=True, slots=True)
class TaskFilter:
    statuses: tuple[TaskStatus, ...] = ()
    project: str | None = None
    workflow: str | None = None
    task_type: str | None = None
    queue: str | None = None
    node: NodeId | None = None
    name_prefix: str | None = None


class TaskPage(NamedTuple):
    tasks: Sequence[TaskRecord]
    before: TaskId | None
    """Where the next page begins; None at the end."""
    searched_to: TaskId | None = None
    """Where a search stopped though there is more: a page costs a bounded number of rows, however rare its finds."""


class Reads(Protocol):
    """What people look at. Pages are newest first; the cursor is the last id seen."""

    async def tasks(self, ids: Sequence[TaskId]) -> dict[TaskId, TaskRecord]: ...

    async def list_tasks(self, where: TaskFilter, limit: int, before: TaskId | None = None) -> list[TaskRecord]: ...

    async def find_tasks(
        self, where: TaskFilter, limit: int, before: TaskId | None = None, text: str | None = None
    ) -> TaskPage:
        """A page that costs no more than so many rows. `text` is the beginning of an id or of a name, or a part of the
        host of a URL in the parameters."""
        ...

    async def executions(self, task: TaskId) -> list[ExecutionRecord]: ...

    async def parents(self, task: TaskId) -> dict[TaskId, TaskStatus | None]:
        """Parents a waiting task still waits for, with their status."""
        ...

    async def dead_letters(
        self, limit: int, before: TaskId | None = None, cause: str | None = None, project: str | None = None
    ) -> list[DeadLetter]: ...

    async def dead_letter_groups(self, project: str | None = None) -> list[DeadLetterGroup]: ...


class Store(
    TaskStore, ReadyTasks, NodeStore, Leadership, EventStore, Upkeep, Reads, TokenStore, AuditStore, TypeStore,
    ConfigStore, Protocol,
):  # fmt: skip
    """All of it. Services ask for the part they use."""

    async def close(self) -> None: ...
