"""Flows: a graph of tasks. The stored specification of a step, how a step ended, and the edges between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlfleet.model.ids import GroupId, TaskId
from crawlfleet.model.status import TaskStatus, Word

StepKey = str
"""Name of a step within its flow."""


class Edge(Word):
    """The end of its parent that a child needs."""

    TASK = 0
    """The edge of `depends_on` of an ordinary task: any end but completed cancels the child at once."""
    SUCCESS = 1
    FAILURE = 2
    ALWAYS = 3
    ITEM = 4
    """The edge from one item of a fan-out to the step that collects them."""


ONS = {edge.word: edge for edge in (Edge.SUCCESS, Edge.FAILURE, Edge.ALWAYS)}
"""Edges that a person may write, by their word."""


class Unrun(Word):
    """Why a step that ended cancelled was never run by its flow."""

    NOT = 0
    """The step was run, or a person cancelled it."""
    SKIPPED = 1
    """The step is not needed by its own condition, or by a parent's: no failure."""
    BROKEN = 2
    """Something that the step depends on failed, timed out or was cancelled."""


class FlowStatus(Word):
    """The status of a whole flow."""

    RUNNING = 0
    COMPLETED = 1
    """Every step completed or was not needed."""
    FAILED = 2
    CANCELLED = 3


@dataclass(frozen=True, slots=True)
class StepSpec:
    """The specification that decides about a step, kept as JSON beside its task."""

    after: Mapping[StepKey, str] = field(default_factory=dict)
    """Parents, each with the end at which this step continues."""
    sees: Mapping[StepKey, TaskId] = field(default_factory=dict)
    """Parents, and the earlier steps that its expressions name, with their tasks."""
    when: str | None = None
    """Condition under which the step is run."""
    for_each: str | list[Any] | None = None
    """List, or expression for a list, that the step fans out over."""
    max_items: int = 0
    """Largest number of items of the fan-out."""
    allow_failures: bool = False
    """Whether the step may complete although items failed."""
    first_item: TaskId = 0
    """First of the ids that are reserved for the items with the flow, so that every fan-out, by any master and however
    often, gives the same tasks."""
    template: Any = None
    """Parameters of the step, where they contain references or are those of items."""

    @property
    def needs_results(self) -> bool:
        """Whether the step needs more than how its parents ended."""
        return self.when is not None or isinstance(self.for_each, str) or self.template is not None


class Ended(NamedTuple):
    """The end of a step, as the steps after it see it."""

    status: TaskStatus
    result: Any = None
    reason: str | None = None
    unrun: Unrun = Unrun.NOT


class PlaceInFlow(NamedTuple):
    """The position of a task in its flow."""

    flow: GroupId
    key: StepKey
    item: int | None
    """Index of the task in its fan-out; None for a step."""
    items: int | None
    """Number of items that the step fanned out into."""
    unrun: Unrun
    waits_for: Sequence[tuple[StepKey, Edge, TaskStatus | None]]
    """Steps that the task still waits for; its own items are not among them."""
