"""Executions: one attempt to run a task on one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.product import Product
from crawlfleet.model.status import ErrorClass, ExecutionStatus, Word


class Failure(NamedTuple):
    """Why an execution failed."""

    error: ErrorClass
    message: str
    is_permanent: bool = False
    """Whether the executor reported that a retry cannot help."""


class End(IntEnum):
    """The end of an execution, as its node reports it."""

    COMPLETED = 1
    FAILED = 2
    TIMED_OUT = 3
    STOPPED = 4
    """The execution was recalled, or stopped by the lease guard."""
    RETURNED = 5
    """The execution was handed back unfinished: the node drains, or the execution raced with a drain."""
    PROCESS_LOST = 6
    """The shared executor process died during the execution."""
    DIED_ALONE = 7
    """The isolated process of the execution died."""


class ParkCause(Word):
    """Why a task is parked."""

    LATER = 0
    """The executor asked for it, in its own words."""
    HOST_BACKOFF = 1
    """All nodes leave the target host alone; the subject is the host."""
    DAILY_QUOTA = 2
    """The project has nothing left of its day; the subject is the project."""


class ParkRequest(NamedTuple):
    """A node's request to park a task. It gives a span: the node's clock is data."""

    span_ms: int
    cause: ParkCause = ParkCause.LATER
    subject: str = ""


class Outcome(NamedTuple):
    """A node's report of an execution that has ended. Spans are the node's, instants the master's."""

    node: NodeId
    """Id of the node that reports."""
    task: TaskId
    execution: ExecutionId
    end: End
    failure: Failure | None = None
    result: bytes | None = None
    """Result of the execution, as JSON."""
    metrics: bytes | None = None
    """Metrics of the execution, as JSON."""
    started_at: Instant | None = None
    park: ParkRequest | None = None
    """Request to park the task, in an outcome of an execution that was handed back."""
    used: Amounts | None = None
    """Amounts used of its project's day, where the execution was metered and reported its use."""
    products: Sequence[Product] = ()
    """Products that the execution saw; written with the outcome if it completed and is accepted."""


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """An execution as it is stored, for people."""

    id: ExecutionId
    task: TaskId
    round: int
    """Round of the task that the execution belongs to."""
    retry: int
    """Number of retries used in the round before this execution."""
    node: NodeId
    session: int
    """Number of the node's session in which it was assigned."""
    status: ExecutionStatus | None
    """Status in which the execution ended; None while it is live."""
    assigned_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    failure: Failure | None
    result: bytes | None
    metrics: bytes | None
