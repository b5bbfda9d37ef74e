"""Slots of the node: executions that run, executions that wait for a slot, and how many more are accepted.

A slot is free when the process is gone: a stopped execution keeps its slot until its coroutine has ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from crawlfleet.model import limits
from crawlfleet.model.status import Recall
from crawlfleet.wire.sync import AssignmentBody, UsedBody


class StopCause(IntEnum):
    """Why an execution is being stopped. A higher cause replaces a lower one."""

    NONE = 0
    HAND_BACK = 1
    """Deadline of a drain."""
    RECALL = 2
    LEASE = 3
    TIMEOUT = 4
    """Timeout of the execution; ignored when it is being stopped already."""
    ABANDON = 5
    """Not assigned to this session by the store: nothing is reported."""


class HeldState(IntEnum):
    """State of an execution on the node."""

    WAITING = 0
    RUNNING = 1
    STOPPING = 2


@dataclass(slots=True, eq=False)
class HeldExecution:
    """One execution on this node, from its acceptance until nothing of it runs any more."""

    assignment: AssignmentBody
    session: int
    task: asyncio.Task[None] | None = None
    started_at: float | None = None
    """Monotonic time at which it was handed to the executor; None before."""
    cause: StopCause = StopCause.NONE
    recall: Recall = Recall.NONE
    is_start_reported: bool = False
    metrics: msgspec.Raw | None = None
    """Metrics of a stopped execution."""
    used: UsedBody | None = None
    """Quota usage of a stopped execution."""
    _is_cancelled: bool = False

    @property
    def id(self) -> int:
        return self.assignment.execution

    @property
    def state(self) -> HeldState:
        if self.cause is not StopCause.NONE:
            return HeldState.STOPPING
        return HeldState.WAITING if self.started_at is None else HeldState.RUNNING

    def note_cause(self, cause: StopCause) -> None:
        if cause > self.cause and (cause is not StopCause.TIMEOUT or self.cause is StopCause.NONE):
            self.cause = cause

    def stop(self, cause: StopCause) -> None:
        self.note_cause(cause)
        # Before its first step a task that is cancelled never runs at all and could not give its slot back: it looks
        # at the cause itself. Later it is cancelled once, since a second time would break into its tidying up.
        if self.started_at is not None and self.task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()


class Slots:
    """The slots of the node and the executions in them."""

    def __init__(self, count: int, prefetch: int = 0) -> None:
        self.declared = count
        """Number of slots the node declared; a master may set another."""
        self.count = count
        self._prefetch = prefetch
        self._running: dict[int, HeldExecution] = {}
        self._waiting: dict[int, HeldExecution] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()

    def __contains__(self, execution: int) -> bool:
        return execution in self._running or execution in self._waiting

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def free_count(self) -> int:
        return max(0, self.count - len(self._running))

    @property
    def acceptable_count(self) -> int:
        """Number of further executions that are accepted."""
        return max(0, self.count + self._prefetch - len(self))

    @property
    def offered_count(self) -> int:
        """Number of slots a master may use: without those that abandoned executions still occupy."""
        abandoned = sum(execution.cause is StopCause.ABANDON for execution in self._running.values())
        return max(0, self.count - abandoned)

    def resize(self, requested: int | None) -> bool:
        """Set the number of slots (None: as declared); True when it changed.

        With fewer slots nothing is stopped, and nothing starts until enough executions have ended.
        """
        count = self.declared if requested is None else max(0, min(requested, limits.SLOTS_MAX))
        is_new = count != self.count
        self.count = count
        return is_new

    def add(self, running: HeldExecution) -> None:
        self._emptied.clear()
        self._waiting[running.id] = running

    def start_next_waiting(self) -> HeldExecution | None:
        """Move the execution that waits longest into a free slot; None when there is none."""
        if not self._waiting or not self.free_count:
            return None
        execution, running = next(iter(self._waiting.items()))
        del self._waiting[execution]
        self._running[execution] = running
        return running

    def remove(self, running: HeldExecution) -> None:
        self._running.pop(running.id, None)
        self._waiting.pop(running.id, None)
        if not len(self):
            self._emptied.set()

    def get(self, execution: int) -> HeldExecution | None:
        return self._running.get(execution) or self._waiting.get(execution)

    def waiting_executions(self) -> list[HeldExecution]:
        return list(self._waiting.values())

    def running_executions(self) -> list[HeldExecution]:
        return list(self._running.values())

    def held_ids(self) -> list[int]:
        """Ids of the executions that the session holds."""
        running = [
            execution
            for execution, running_execution in self._running.items()
            if running_execution.cause is not StopCause.ABANDON
        ]
        return running + list(self._waiting)

    def unreported_starts(self) -> list[HeldExecution]:
        return [
            execution
            for execution in self._running.values()
            if execution.started_at is not None
            and not execution.is_start_reported
            and execution.cause is not StopCause.ABANDON
        ]

    async def wait_until_empty(self) -> None:
        await self._emptied.wait()
