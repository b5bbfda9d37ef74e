"""What is on the node now: executions that run, executions that wait for a slot, and how many more fit.

A slot is free when the process is gone: an execution told to stop keeps its slot until its coroutine has ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from crawlfleet.model import limits
from crawlfleet.model.status import Recall
from crawlfleet.wire.sync import AssignmentBody, UsedBody


class Cause(IntEnum):
    """Why an execution is being stopped. A higher one takes the place of a lower one."""

    NONE = 0
    HAND_BACK = 1
    """A drain's deadline."""
    RECALL = 2
    LEASE = 3
    TIMEOUT = 4
    """Only for one that nobody had told to stop before."""
    ABANDON = 5
    """The store does not give it to this session: report nothing."""


class State(IntEnum):
    WAITING = 0
    RUNNING = 1
    STOPPING = 2


@dataclass(slots=True, eq=False)
class Running:
    """One execution on this node, from its acceptance until nothing of it runs any more."""

    assignment: AssignmentBody
    session: int
    task: asyncio.Task[None] | None = None
    started_at: float | None = None
    """By the monotonic clock; None until it was handed to the executor."""
    cause: Cause = Cause.NONE
    recall: Recall = Recall.NONE
    is_start_told: bool = False
    metrics: msgspec.Raw | None = None
    """What the executor told of one that was stopped."""
    used: UsedBody | None = None
    """So with what it fetched."""
    _is_cancelled: bool = False

    @property
    def execution(self) -> int:
        return self.assignment.execution

    @property
    def state(self) -> State:
        if self.cause is not Cause.NONE:
            return State.STOPPING
        return State.WAITING if self.started_at is None else State.RUNNING

    def note(self, cause: Cause) -> None:
        if cause > self.cause and (cause is not Cause.TIMEOUT or self.cause is Cause.NONE):
            self.cause = cause

    def stop(self, cause: Cause) -> None:
        self.note(cause)
        # Before its first step a task that is cancelled never runs at all and could not give its slot back: it looks
        # at the cause itself. Later it is cancelled once, since a second time would break into its tidying up.
        if self.started_at is not None and self.task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()


class Slots:
    def __init__(self, count: int, prefetch: int = 0) -> None:
        self.declared = count
        """What the node offers of itself; a master may ask for another count."""
        self.count = count
        self._prefetch = prefetch
        self._running: dict[int, Running] = {}
        self._waiting: dict[int, Running] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()

    def __contains__(self, execution: int) -> bool:
        return execution in self._running or execution in self._waiting

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def free(self) -> int:
        return max(0, self.count - len(self._running))

    @property
    def room(self) -> int:
        """How many more executions may be accepted."""
        return max(0, self.count + self._prefetch - len(self))

    @property
    def offered(self) -> int:
        """Slots as a master may count them: without those still filled by abandoned work, of which it does not know."""
        abandoned = sum(one.cause is Cause.ABANDON for one in self._running.values())
        return max(0, self.count - abandoned)

    def resize(self, wanted: int | None) -> bool:
        """Lower: nothing is stopped, and nothing starts until enough have ended. None: as declared."""
        count = self.declared if wanted is None else max(0, min(wanted, limits.SLOTS_MAX))
        is_new = count != self.count
        self.count = count
        return is_new

    def add(self, running: Running) -> None:
        self._emptied.clear()
        self._waiting[running.execution] = running

    def next_waiting(self) -> Running | None:
        """Moves the execution that waits longest into a free slot."""
        if not self._waiting or not self.free:
            return None
        execution, running = next(iter(self._waiting.items()))
        del self._waiting[execution]
        self._running[execution] = running
        return running

    def remove(self, running: Running) -> None:
        self._running.pop(running.execution, None)
        self._waiting.pop(running.execution, None)
        if not len(self):
            self._emptied.set()

    def get(self, execution: int) -> Running | None:
        return self._running.get(execution) or self._waiting.get(execution)

    def waiting(self) -> list[Running]:
        return list(self._waiting.values())

    def running(self) -> list[Running]:
        return list(self._running.values())

    def held(self) -> list[int]:
        """What the session holds."""
        running = [execution for execution, one in self._running.items() if one.cause is not Cause.ABANDON]
        return running + list(self._waiting)

    def untold_starts(self) -> list[Running]:
        return [
            one
            for one in self._running.values()
            if one.started_at is not None and not one.is_start_told and one.cause is not Cause.ABANDON
        ]

    async def emptied(self) -> None:
        await self._emptied.wait()
