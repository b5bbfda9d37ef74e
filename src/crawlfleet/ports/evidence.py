"""Evidence: what ended since it was last looked, and what was learned from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from crawlfleet.model.evidence import EvidenceRow, Subject
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.requirement import Requirement
from crawlfleet.model.status import ErrorClass


class EndedRun(NamedTuple):
    """An execution that says something about its node."""

    task: TaskId
    execution: ExecutionId
    node: NodeId
    at: Instant
    error: ErrorClass | None
    """None: it completed."""


class EndedRuns(NamedTuple):
    after: int
    """The number of the last event that was folded,"""
    up_to: int
    """and of the last one of these."""
    runs: Sequence[EndedRun]


class TaskContent(NamedTuple):
    """What a task was about; only of tasks that say more than their type."""

    requirement: Requirement
    spec: bytes


class EvidenceStore(Protocol):
    async def want_evidence(self) -> None:
        """From here on, ended executions are kept for folding: told before the first task that has a subject."""
        ...

    async def ended_runs(self, rows: int) -> EndedRuns | None:
        """What ended after the last fold, from at most `rows` rows of the event log. None: nobody wants to know."""
        ...

    async def contents(self, tasks: Sequence[TaskId]) -> dict[TaskId, TaskContent]: ...

    async def parameters(self, tasks: Sequence[TaskId]) -> dict[TaskId, bytes]: ...

    async def fold_evidence(self, found: EndedRuns, news: Sequence[EvidenceRow], term: int) -> list[EvidenceRow] | None:
        """Add what was learned from these events, once: None when somebody has folded since they were read.

        Gives the changed rows as they are now. Several rows of one node and subject count together.
        """
        ...

    async def evidence(self, subjects: Sequence[Subject]) -> list[EvidenceRow]: ...

    async def failed_on(self, tasks: Sequence[TaskId]) -> dict[TaskId, NodeId]:
        """The node of the last execution of each task, where that one failed."""
        ...
