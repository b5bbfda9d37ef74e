"""Flows: a graph of tasks that is added as one, read, and resumed. The rules are those of `ports.store`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from crawlfleet.model.flow import PlaceInFlow, StepKey, StepSpec, Unrun
from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.idempotency import Claim
from crawlfleet.ports.task_store import Applied, NewTask


class NewStep(NamedTuple):
    """A step of a flow that is to be added."""

    key: StepKey
    task: NewTask
    spec: StepSpec


class NewFlow(NamedTuple):
    """A flow that is to be added."""

    id: GroupId
    project: str
    name: str | None
    created_at: Instant
    steps: Sequence[NewStep]
    """Steps in an order in which parents come first."""
    limited: Collection[str] = ()
    """The flow's project, if it has quotas on waiting tasks: if one is exceeded, nothing of the flow is accepted."""


class AddedFlow(NamedTuple):
    """The answer to a flow that was added."""

    id: GroupId
    applied: Applied
    """Effects on tasks, for the broker's hints."""
    is_replay: bool = False
    """Whether an earlier request under the same idempotency key added the flow."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of a flow, as people see it."""

    key: StepKey
    task: TaskId
    task_type: str
    status: TaskStatus
    round: int
    waits: int
    """Number of parents that the step still waits for."""
    reason: str | None
    """Reason of the step's status, for people."""
    unrun: Unrun
    """Why a step that ended cancelled was never run by its flow."""
    spec: StepSpec
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    items: Mapping[TaskStatus, int] | None
    """Number of the tasks that the step fanned out into, by status; None before, and for a step without fan-out."""


class StepTally(NamedTuple):
    """The number of steps of a flow that have one status."""

    status: TaskStatus
    unrun: Unrun
    steps: int


class FlowStore(Protocol):
    """Access to flows and their steps."""

    async def add_flow(self, flow: NewFlow, claim: Claim | None, now: Instant) -> AddedFlow:
        """Add every step as a task that waits for its parents; steps without parents are decided upon at once.

        A known claim returns the flow that it first returned, or raises IdempotencyMismatch.
        """
        ...

    async def resume_flow(self, flow: GroupId, now: Instant) -> Applied:
        """Begin the next round of the steps that ended badly, and of those after them that did not complete.

        Completed steps stay as they are; a step waits for those of its parents that run again. Nothing is changed where
        nothing is to do.
        """
        ...

    async def flow_steps(self, flow: GroupId) -> list[StepRecord]:
        """Return the steps of a flow, parents first."""
        ...

    async def flow_tallies(self, flows: Sequence[GroupId]) -> dict[GroupId, list[StepTally]]: ...

    async def place_in_flow(self, task: TaskId) -> PlaceInFlow | None:
        """Return the position of a task in its flow; None for a task that is in no flow."""
        ...

    async def unrun_result(self, task: TaskId) -> bytes | None:
        """Return the result that a step collected from its items, without an execution of its own."""
        ...
