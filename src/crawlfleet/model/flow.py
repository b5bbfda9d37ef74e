"""Flows: a graph of tasks. What is kept of a step, how it ended, and what joins two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.status import TaskStatus, Word

StepKey = str


class Edge(Word):
    """What a child asks of the end of its parent."""

    TASK = 0
    """`depends_on` of an ordinary task: anything but completed cancels the child at once."""
    SUCCESS = 1
    FAILURE = 2
    ALWAYS = 3
    ITEM = 4
    """From one item of a fan-out to the step that gathers them."""


ONS = {edge.word: edge for edge in (Edge.SUCCESS, Edge.FAILURE, Edge.ALWAYS)}
"""What a person may write."""


class Unrun(Word):
    """Why a step that ended cancelled was never run by its flow."""

    NOT = 0
    """It was run, or a person cancelled it."""
    SKIPPED = 1
    """Its condition, or a parent's, says that it is not needed: no failure."""
    BROKEN = 2
    """Something it depends on failed, timed out or was cancelled."""


class FlowStatus(Word):
    RUNNING = 0
    COMPLETED = 1
    """Every step completed or was not needed."""
    FAILED = 2
    CANCELLED = 3


@dataclass(frozen=True, slots=True)
class StepSpec:
    """What decides about a step, kept as JSON beside its task."""

    after: Mapping[StepKey, str] = field(default_factory=dict)
    """Parents, and on which of their ends it goes on."""
    sees: Mapping[StepKey, TaskId] = field(default_factory=dict)
    """Parents, and the earlier steps its expressions name."""
    when: str | None = None
    for_each: str | list[Any] | None = None
    max_items: int = 0
    allow_failures: bool = False
    first_item: TaskId = 0
    """The ids of the items are set aside with the flow: whoever fans it out, and however often, gives the same."""
    template: Any = None
    """The parameters, where they have references in them or are those of items."""

    @property
    def looks(self) -> bool:
        """Whether it asks for more than how its parents ended."""
        return self.when is not None or isinstance(self.for_each, str) or self.template is not None


class Ended(NamedTuple):
    """How a step ended, as the steps after it see it."""

    status: TaskStatus
    result: Any = None
    reason: str | None = None
    unrun: Unrun = Unrun.NOT


class PlaceInFlow(NamedTuple):
    """Where a task stands in its flow."""

    flow: GroupId
    key: StepKey
    item: int | None
    """Which one of a fan-out; None for a step."""
    items: int | None
    """How many it fanned out into."""
    unrun: Unrun
    waits_for: Sequence[tuple[StepKey, Edge, TaskStatus | None]]
    """Steps that it still waits for; its own items are not among them."""
