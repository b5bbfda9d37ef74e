"""What happened in a run, as somebody outside would have seen it, for the checker to judge.

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
    at: int


@dataclass(frozen=True, slots=True)
class SubmitSent(Record):
    """`batch` is the caller's own name, found again on the tasks; sent again under the same key it is one batch."""

    batch: str
    size: int
    """Items that are good: so many tasks make the batch whole."""


@dataclass(frozen=True, slots=True)
class SubmitAnswered(Record):
    batch: str
    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class SubmitRefused(Record):
    """Answered: nothing was stored. An unknown outcome is no answer and no record."""

    batch: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CancelAnswered(Record):
    task: TaskId
    round: int
    is_final: bool
    """False: the node was asked to stop."""


@dataclass(frozen=True, slots=True)
class RetryAnswered(Record):
    task: TaskId
    round: int
    """The one that was opened."""


@dataclass(frozen=True, slots=True)
class Assigned(Record):
    """Committed by the store."""

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
    kind: Fault
    target: int | str
    """Id of a node, name of a master, or whatever else was hit."""
    until: int


@dataclass(frozen=True, slots=True)
class NodeStarted(Record):
    node: NodeId
    slots: int


@dataclass(frozen=True, slots=True)
class NodeKilled(Record):
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeLeft(Record):
    """Takes no more work: drained, held or gone cleanly."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MasterStarted(Record):
    master: str


@dataclass(frozen=True, slots=True)
class MasterKilled(Record):
    """Or stopped: it no longer stands for election."""

    master: str


@dataclass(frozen=True, slots=True)
class LeaderElected(Record):
    term: int
    master: str


R = TypeVar("R", bound=Record)


class History:
    """Append only, in the order of time."""

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._records: list[Record] = []
        self._by_kind: dict[type[Record], list[Record]] = {}

    @property
    def now(self) -> int:
        """For `at` of the next record."""
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
    """Why it is not final, in words for people."""


class HeldSlots(NamedTuple):
    """Slots in use on a node, by the store's rows and by the agent's own account."""

    store: int
    agent: int


class GroupState(NamedTuple):
    counted: GroupCounts
    rows: GroupCounts
    is_finished: bool
    """As the leader noticed; it may have had no time for the last one."""


@dataclass(frozen=True, slots=True)
class FinalState:
    """A snapshot once things are quiet."""

    at: int
    tasks: Mapping[TaskId, TaskState] = field(default_factory=dict)
    batches: Mapping[str, Sequence[TaskId]] = field(default_factory=dict)
    """Tasks found in the store by the batch that named them."""
    executions: Sequence[ExecutionRecord] = ()
    counters: Mapping[TaskStatus, int] = field(default_factory=dict)
    rows: Mapping[TaskStatus, int] = field(default_factory=dict)
    groups: Mapping[GroupId, GroupState] = field(default_factory=dict)
    slots: Mapping[NodeId, HeldSlots] = field(default_factory=dict)
    held_back: Collection[TaskId] = frozenset()
    """Tasks that something else than the want of a slot may keep waiting: the time they take to recover says
    nothing."""
    reservations: Mapping[str, float] = field(default_factory=dict)
    """Whatever else must come back to zero: reservations, quotas, host budgets."""
