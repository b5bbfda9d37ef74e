"""How schedules are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from crawlfleet.api.views.tasks import AnObject, StatusWord, Time, instant_text
from crawlfleet.control.composites.schedules import Runs, schedule_body
from crawlfleet.model.ids import TaskId, schedule_text, task_text
from crawlfleet.model.instants import to_text
from crawlfleet.model.schedule import Schedule, Tick
from crawlfleet.model.task import TaskRecord
from crawlfleet.wire.schedules import CatchUpWord, OverlapWord


class RunView(msgspec.Struct, frozen=True):
    """What became of a tick, or a run by hand."""

    run_at: Time
    """The instant that the schedule names; of a run by hand, when it was asked for."""
    status: Literal["fired", "skipped", "refused", "by_hand"]
    """`refused`: the template could not be submitted any more."""
    made_at: Time
    """When that was decided."""
    task_id: str | None
    task_status: StatusWord | None
    """null without a task, and when the task is no longer kept."""
    reason: str | None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, as it was made and as it stands."""

    id: str
    name: str | None
    project_id: str | None
    task: AnObject
    """The template: a task is submitted with it each time."""
    at: Time | None
    every_s: int | None
    cron: str | None
    time_zone: str
    starts_at: Time | None
    ends_at: Time | None
    jitter_s: int
    catch_up: CatchUpWord
    overlap: OverlapWord
    is_paused: bool
    status: Literal["active", "paused", "ended"]
    """`ended`: it has no run left."""
    created_at: Time
    created_by: str
    changed_at: Time
    next_run_at: Time | None
    """With its jitter."""
    held_at: Time | None
    """A tick that waits for the task of an earlier one to end, as `overlap` is `queue`."""
    held_for: str | None
    """That task."""
    last_error: str | None
    """Why the template could not be submitted the last time."""
    next_runs: list[Time] | msgspec.UnsetType = msgspec.UNSET
    """The next five, each with its jitter; only where one schedule is shown."""
    last_runs: list[RunView] | msgspec.UnsetType = msgspec.UNSET
    """The last twenty, newest first; only where one schedule is shown."""


class SchedulePageView(msgspec.Struct, frozen=True):
    schedules: list[ScheduleView]
    next_cursor: str | None


def schedule_view(schedule: Schedule, runs: Runs | None = None) -> ScheduleView:
    said = schedule_body(schedule)
    return ScheduleView(
        id=schedule_text(schedule.id),
        name=said.name,
        project_id=schedule.project or None,
        task=said.task,
        at=said.at,
        every_s=said.every_s,
        cron=said.cron,
        time_zone=said.time_zone,
        starts_at=said.starts_at,
        ends_at=said.ends_at,
        jitter_s=said.jitter_s,
        catch_up=said.catch_up,
        overlap=said.overlap,
        is_paused=said.is_paused,
        status=_schedule_status(schedule),
        created_at=to_text(schedule.created_at),
        created_by=schedule.created_by,
        changed_at=to_text(schedule.changed_at),
        next_run_at=instant_text(schedule.due_at),
        held_at=instant_text(schedule.held_at),
        held_for=None if schedule.held_for is None else task_text(schedule.held_for),
        last_error=schedule.last_error,
        next_runs=msgspec.UNSET if runs is None else [to_text(at) for at in runs.coming],
        last_runs=msgspec.UNSET if runs is None else [_run_view(tick, runs.tasks) for tick in runs.last],
    )


def _schedule_status(schedule: Schedule) -> Literal["active", "paused", "ended"]:
    if schedule.is_paused:
        return "paused"
    return "ended" if schedule.is_ended else "active"


def _run_view(tick: Tick, tasks: Mapping[TaskId, TaskRecord]) -> RunView:
    task = None if tick.task is None else tasks.get(tick.task)
    return RunView(
        to_text(tick.at),
        tick.status.word,  # type: ignore[arg-type]
        to_text(tick.made_at),
        None if tick.task is None else task_text(tick.task),
        None if task is None else task.status.word,  # type: ignore[arg-type]
        tick.reason,
    )
