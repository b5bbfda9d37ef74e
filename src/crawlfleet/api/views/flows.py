"""How flows are shown."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from crawlfleet.api.views.tasks import StatusWord, Time, instant_text
from crawlfleet.control.composites.flows import Flow
from crawlfleet.model.flow import Unrun
from crawlfleet.model.group import GroupCounts
from crawlfleet.model.ids import GroupId, group_text, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.composite_store import StepRecord
from crawlfleet.ports.task_store import Applied

FlowWord = Literal["running", "completed", "failed", "cancelled"]


class FlowProgress(msgspec.Struct, frozen=True):
    """Of its tasks: steps, and the items they fanned out into."""

    total: int
    open: int
    completed: int
    failed: int
    timeout: int
    cancelled: int


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """A graph of tasks."""

    id: str
    name: str | None
    project_id: str | None
    status: FlowWord
    created_at: Time
    finished_at: Time | None
    progress: FlowProgress


class FlowPageView(msgspec.Struct, frozen=True):
    flows: list[FlowView]
    next_cursor: str | None


class StepItems(msgspec.Struct, frozen=True):
    """What a step fanned out into."""

    total: int
    by_status: dict[str, int]


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a flow, which is a task."""

    key: str
    task_id: str
    task_type: str
    status: StatusWord
    is_skipped: bool
    """It ended `cancelled` because it was not needed: no failure."""
    reason: str | None
    """Why it ended as it did."""
    round: int
    after: dict[str, str]
    """The steps before it, and on which of their ends it goes on."""
    waits: int
    """How many of them, or of its own items, have not ended."""
    when: str | None
    for_each: Any
    items: StepItems | None
    """null before it fanned out, and for a step that does not."""
    started_at: Time | None
    ended_at: Time | None


class FlowDetail(FlowView, frozen=True, kw_only=True):
    """A flow with its graph."""

    steps: list[StepView]
    """Parents first."""


class FlowChangedView(msgspec.Struct, frozen=True):
    """A flow after what was asked."""

    id: str
    changed: int
    """Tasks that changed."""
    by_status: dict[str, int]
    """Their statuses after it."""


def flow_view(flow: Flow) -> FlowView:
    return FlowView(**_flow_fields(flow))


def flow_detail(flow: Flow) -> FlowDetail:
    return FlowDetail(**_flow_fields(flow), steps=[_step_view(step) for step in flow.steps])


def flow_changed(flow: GroupId, applied: Applied) -> FlowChangedView:
    by_status: dict[str, int] = {}
    for status in applied.after.values():
        by_status[status.word] = by_status.get(status.word, 0) + 1
    return FlowChangedView(group_text(flow), len(applied.after), by_status)


def _flow_fields(flow: Flow) -> dict[str, Any]:
    group = flow.group
    return {
        "id": group_text(group.id),
        "name": group.name,
        "project_id": group.project or None,
        "status": flow.status.word,
        "created_at": to_text(group.created_at),
        "finished_at": instant_text(group.finished_at),
        "progress": _progress_view(flow.counts),
    }


def _progress_view(counts: GroupCounts) -> FlowProgress:
    return FlowProgress(counts.total, *counts)


def _step_view(step: StepRecord) -> StepView:
    items = None
    if step.items is not None:
        by_status = {status.word: step.items[status] for status in TaskStatus if status in step.items}
        items = StepItems(sum(step.items.values()), by_status)
    return StepView(
        key=step.key,
        task_id=task_text(step.task),
        task_type=step.task_type,
        status=step.status.word,  # type: ignore[arg-type]
        is_skipped=step.unrun is Unrun.SKIPPED,
        reason=step.reason,
        round=step.round,
        after=dict(step.spec.after),
        waits=step.waits,
        when=step.spec.when,
        for_each=step.spec.for_each,
        items=items,
        started_at=instant_text(step.started_at),
        ended_at=instant_text(step.ended_at),
    )
