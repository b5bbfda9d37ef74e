"""The history of a run, as an outside observer would have seen it, for the checker to judge.

Times are milliseconds of the run itself, never of a master's clock, which a fault may have set wrong. What is learnt
late (an outcome, from the event log) may be recorded late: that makes the checks weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeVar

from crawlfleet.model.execution import ExecutionRecord
from crawlfleet.model.group import GroupCounts
from crawlfleet.model.ids import ExecutionId, GroupId, NodeId, TaskId
from crawlfleet.model.status import TaskStatus


@dataclass(frozen=True, slots=True)
class Record:
    """One observation of a run."""

    at: int
    """Time of the observation, in milliseconds of the run."""


@dataclass(frozen=True, slots=True)
class SubmitSent(Record):
    """A batch was sent. `batch` is the caller's own name, found again on the tasks; sent again under the same key it is
    one batch."""

    batch: str
    size: int
    """Number of valid items, which is the number of tasks of a whole batch."""


@dataclass(frozen=True, slots=True)
class SubmitAnswered(Record):
    """A batch was answered with the ids of its tasks."""

    batch: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class SubmitRefused(Record):
    """A batch was refused: nothing was stored. An unknown outcome is no answer and no record."""

    batch: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CancelAnswered(Record):
    """A cancellation was answered."""

    task: TaskId
    round: int
    is_final: bool
    """Whether the task was final at once; False when the node was ordered to stop it."""


@dataclass(frozen=True, slots=True)
class RetryAnswered(Record):
    """A person's retry was answered."""

    task: TaskId
    round: int
    """Number of the round that was opened."""


@dataclass(frozen=True, slots=True)
class Assigned(Record):
    """The store committed an assignment."""

    task: TaskId
    round: int
    execution: ExecutionId
    node: NodeId
    session: int


@dataclass(frozen=True, slots=True)
class Started(Record):
    """Work really begins on a node."""

    task: TaskId
    execution: ExecutionId
    node: NodeId


@dataclass(frozen=True, slots=True)
class Ended(Record):
    """Nothing of the work is left on the node, however it ended. Work on a killed node ends with it."""

    task: TaskId
    execution: ExecutionId
    node: NodeId


@dataclass(frozen=True, slots=True)
class OutcomeAccepted(Record):
    """The task became final, by the event log; `execution` is 0 where none made it so."""

    task: TaskId
    round: int
    execution: ExecutionId
    status: TaskStatus


class Fault(StrEnum):
    """The kind of a fault."""

    NODE_KILL = "node killed"
    NODE_PAUSE = "node paused"
    MASTER_KILL = "master killed"
    MASTER_PAUSE = "master paused"
    NETWORK_CUT = "network cut"
    NETWORK_DELAY = "network slow"
    STORE = "store calls fail"
    BROKER = "broker emptied"
    CLOCK = "clock jumped"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FaultInjected(Record):
    """A fault began."""

    kind: Fault
    target: int | str
    """Id of a node, name of a master, or the name of another target."""
    until: int
    """Time at which the fault ends."""


@dataclass(frozen=True, slots=True)
class NodeStarted(Record):
    """A node was started."""

    node: NodeId
    slots: int


@dataclass(frozen=True, slots=True)
class NodeKilled(Record):
    """A node was killed."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeLeft(Record):
    """A node takes no more work: drained, held or cleanly stopped."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MasterStarted(Record):
    """A master was started."""

    master: str


@dataclass(frozen=True, slots=True)
class MasterKilled(Record):
    """A master was killed or stopped: it no longer stands for election."""

    master: str


@dataclass(frozen=True, slots=True)
class LeaderElected(Record):
    """A master was elected as leader."""

    term: int
    master: str


R = TypeVar("R", bound=Record)


class History:
    """The records of a run, append-only, in the order of time."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._records: list[Record] = []
        self._by_kind: dict[type[Record], list[Record]] = {}

    @property
    def now(self) -> int:
        """Return the time for `at` of the next record."""
        return self._now_ms()

    def add(self, record: Record) -> None:
        self._records.append(record)
        self._by_kind.setdefault(type(record), []).append(record)

    def of(self, kind: type[R]) -> list[R]:
        return [record for record in self._by_kind.get(kind, ()) if isinstance(record, kind)]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task as the store has it at the end."""

    status: TaskStatus
    round: int = 1
    retries: int = 0
    losses: int = 0
    deaths: int = 0
    max_retries: int = 3
    is_dead_letter: bool = False
    why: str | None = None
    """Explanation why the task is not final, in words for people."""


class HeldSlots(NamedTuple):
    """The numbers of slots in use on a node, by the store's rows and by the agent's own count."""

    store: int
    agent: int


class GroupState(NamedTuple):
    """A group as the store has it at the end."""

    counted: GroupCounts
    """Counts from the counters."""
    rows: GroupCounts
    """Counts from the members' rows."""
    is_finished: bool
    """Whether the leader marked the group as finished; it may have had no time for the last one."""


@dataclass(frozen=True, slots=True)
class FinalState:
    """The final state of the store, once the installation is quiet."""

    at: int
    tasks: Mapping[TaskId, TaskState] = field(default_factory=dict)
    batches: Mapping[str, Sequence[TaskId]] = field(default_factory=dict)
    """Tasks found in the store, by the batch that they carry."""
    executions: Sequence[ExecutionRecord] = ()
    counters: Mapping[TaskStatus, int] = field(default_factory=dict)
    """Numbers of tasks from the counters."""
    rows: Mapping[TaskStatus, int] = field(default_factory=dict)
    """Numbers of tasks from the rows."""
    figures: Sequence[int] | None = None
    """Task figures of the whole installation; None where they are not looked at."""
    groups: Mapping[GroupId, GroupState] = field(default_factory=dict)
    slots: Mapping[NodeId, HeldSlots] = field(default_factory=dict)
    held_back: Collection[TaskId] = frozenset()
    """Tasks that may wait for something other than a slot: the time they take to recover proves nothing."""
    reservations: Mapping[str, float] = field(default_factory=dict)
    """Everything else that must return to zero: reservations, quotas, host budgets."""
