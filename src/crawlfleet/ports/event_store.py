"""The event log, and the evidence that is gained from executions that ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.event import Event, EventBatch
from crawlfleet.model.evidence import EvidenceRow, Subject
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass


class EventStore(Protocol):
    """Access to the event log, with its events numbered in the order of the commits, and to its outbox."""

    async def relay_events(self, term: int, limit: int) -> int:
        """Number committed outbox rows (at most `limit`) and move them to the log; returns the last number, or 0."""
        ...

    async def events_after(self, number: int, limit: int) -> list[Event]: ...

    async def last_event(self) -> int: ...

    async def record_events(self, batches: Sequence[EventBatch], now: Instant, term: int | None = None) -> None:
        """Write events that belong to no other transition."""
        ...


class EndedRun(NamedTuple):
    """An ended execution that is evidence about its node."""

    task: TaskId
    execution: ExecutionId
    node: NodeId
    at: Instant
    error: ErrorClass | None
    """Error class of the execution; None for one that completed."""


class EndedRuns(NamedTuple):
    """The executions that ended within a range of the event log."""

    after: int
    """Number of the last event that was folded before this range."""
    up_to: int
    """Number of the last event of this range."""
    runs: Sequence[EndedRun]


class TaskContent(NamedTuple):
    """The requirement and specification of a task; only for tasks that specify more than their type."""

    requirement: Requirement
    spec: bytes


class EvidenceStore(Protocol):
    """Access to executions that ended since the last fold, and to the evidence gained from them."""

    async def want_evidence(self) -> None:
        """Keep ended executions for folding from here on; called before the first task that has a subject."""
        ...

    async def ended_runs(self, rows: int) -> EndedRuns | None:
        """Return what ended after the last fold, from at most `rows` rows of the event log.

        Returns None when `want_evidence` was never called.
        """
        ...

    async def task_contents(self, tasks: Sequence[TaskId]) -> dict[TaskId, TaskContent]: ...

    async def task_parameters(self, tasks: Sequence[TaskId]) -> dict[TaskId, bytes]: ...

    async def fold_evidence(self, found: EndedRuns, news: Sequence[EvidenceRow], term: int) -> list[EvidenceRow] | None:
        """Add the evidence gained from these events, once: None when another fold took place since they were read.

        Returns the changed rows as they are now. Several rows of one node and subject count together.
        """
        ...

    async def load_evidence(self, subjects: Sequence[Subject]) -> list[EvidenceRow]: ...

    async def failed_nodes(self, tasks: Sequence[TaskId]) -> dict[TaskId, NodeId]:
        """Return, for each task whose last execution failed, the node of that execution."""
        ...
