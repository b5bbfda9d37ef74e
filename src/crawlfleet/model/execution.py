"""Executions: one attempt at a task on one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from crawlfleet.model.daily_quota import Amounts
from crawlfleet.model.ids import ExecutionId, NodeId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.parking import Park
from crawlfleet.model.product import Product
from crawlfleet.model.status import ErrorClass, ExecutionStatus


class Failure(NamedTuple):
    error: ErrorClass
    message: str
    is_permanent: bool = False
    """Said by the executor: a retry cannot help."""


class End(IntEnum):
    """How an execution ended, as its node tells it."""

    COMPLETED = 1
    FAILED = 2
    TIMED_OUT = 3
    STOPPED = 4
    """Recalled, or stopped by the lease guard."""
    RETURNED = 5
    """Handed back unfinished: drain, or it raced with one."""
    PROCESS_LOST = 6
    """The shared executor process died under it."""
    DIED_ALONE = 7
    """Its own process died."""


class Outcome(NamedTuple):
    """What a node says of an execution that is over. Spans are the node's, instants the master's."""

    node: NodeId
    """Who says it."""
    task: TaskId
    execution: ExecutionId
    end: End
    failure: Failure | None = None
    result: bytes | None = None
    metrics: bytes | None = None
    started_at: Instant | None = None
    park: Park | None = None
    """Of one that was handed back: what it waits for."""
    used: Amounts | None = None
    """Of its project's day, where it was metered and lived to tell."""
    products: Sequence[Product] = ()
    """That it saw; written with it if it completed and is taken."""


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    id: ExecutionId
    task: TaskId
    round: int
    retry: int
    node: NodeId
    session: int
    status: ExecutionStatus | None
    """None while it lives."""
    assigned_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    failure: Failure | None
    result: bytes | None
    metrics: bytes | None
