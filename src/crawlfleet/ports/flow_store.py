"""Flows: a graph of tasks added as one, looked at, taken up again. The rules are those of `ports.store`."""

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
    key: StepKey
    task: NewTask
    spec: StepSpec


class NewFlow(NamedTuple):
    id: GroupId
    project: str
    name: str | None
    created_at: Instant
    steps: Sequence[NewStep]
    """Parents first."""
    limited: Collection[str] = ()
    """Its project, if that has quotas on what waits: above one, nothing of it is taken."""


class AddedFlow(NamedTuple):
    id: GroupId
    applied: Applied
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step, for people."""

    key: StepKey
    task: TaskId
    task_type: str
    status: TaskStatus
    round: int
    waits: int
    reason: str | None
    unrun: Unrun
    spec: StepSpec
    created_at: Instant
    started_at: Instant | None
    ended_at: Instant | None
    items: Mapping[TaskStatus, int] | None
    """What it fanned out into; None before, and for a step that does not."""


class StepTally(NamedTuple):
    """So many steps of a flow stand so."""

    status: TaskStatus
    unrun: Unrun
    steps: int


class FlowStore(Protocol):
    async def add_flow(self, flow: NewFlow, claim: Claim | None, now: Instant) -> AddedFlow:
        """Every step as a task that waits for its parents; those without any are decided upon at once.

        A claim that is known gives the flow it first gave, or raises IdempotencyMismatch.
        """
        ...

    async def resume_flow(self, flow: GroupId, now: Instant) -> Applied:
        """The next round of the steps that ended badly, and of those after them that did not complete.

        What completed stays; a step waits for its parents that run again. Nothing is changed where nothing is to do.
        """
        ...

    async def flow_steps(self, flow: GroupId) -> list[StepRecord]:
        """Parents first."""
        ...

    async def flow_tallies(self, flows: Sequence[GroupId]) -> dict[GroupId, list[StepTally]]: ...

    async def place_in_flow(self, task: TaskId) -> PlaceInFlow | None:
        """None for a task that is in no flow."""
        ...

    async def unrun_result(self, task: TaskId) -> bytes | None:
        """What a step gathered from its items, without an execution of its own."""
        ...
