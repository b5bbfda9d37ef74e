"""What runs by the clock, and what a run does while the one before it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crawlfleet.client._generated.models import RunView, ScheduleView

from .stage import LONG_S, Stage

_EVERY_S = 2
_MINUTELY = "every minute"
# In Virginia, where there is room: it must not be in the way of other chapters.
_LONG: dict[str, Any] = {"task_type": "sleep", "parameters": {"seconds": LONG_S}, "node_type": "large"}
_WORDS = f"sleep --params '{{\"seconds\": {LONG_S}}}' --field node_type=large"


def overlaps(stage: Stage) -> None:
    stage.tell.chapter("Schedules", "Each run once; `overlap` says what becomes of it while the last one goes on.")
    stage.tell.step(f"Two schedules, every {_EVERY_S} s, whose tasks take far longer than that.")
    made = {overlap: _make(stage, overlap) for overlap in ("skip", "cancel_previous")}
    try:
        first, second = _runs(stage, made["skip"], 2)[:2]
        stage.tell.command(f"crawlfleet schedule show {made['skip'].id}")
        stage.tell.note(f"skip: {second.reason}")
        stage.tell.check(("fired", "skipped"), (first.status, second.status), "skip: the first run, the second")

        stage.until(
            lambda: _runs(stage, made["cancel_previous"], 2)[0].task_status == "cancelled", "nothing is cancelled"
        )
        first, second = _runs(stage, made["cancel_previous"], 2)[:2]
        stage.tell.note(f"cancel_previous: {stage.client.why(str(first.task_id)).sentence}")
        stage.tell.check(
            ("fired", "cancelled", "fired"),
            (first.status, first.task_status, second.status),
            "cancel_previous: the first run, its task, the second",
        )
    finally:
        _end(stage, made.values())


def cron_begins(stage: Stage) -> None:
    stage.tell.chapter("A cron, begun", "It runs at the next full minute; meanwhile we look at other things.")
    stage.tell.command(
        f"crawlfleet schedule add {_WORDS} --cron '* * * * *' --time-zone Europe/Berlin --overlap skip"
        f" --name '{_MINUTELY}'"
    )
    made = stage.client.create_schedule(
        _LONG, cron="* * * * *", time_zone="Europe/Berlin", overlap="skip", name=_MINUTELY
    )
    assert made.next_runs is not None
    stage.tell.note(f"next runs: {', '.join(f'{at:%H:%M:%S}' for at in made.next_runs[:3])} UTC")
    stage.tell.check({0}, {at.second for at in made.next_runs}, "each at second")
    stage.tell.command(f"crawlfleet schedule run {made.id}")
    # By force, in case this very moment was a full minute.
    task = stage.client.run_schedule(made.id, force=True)
    stage.tell.note(f"{task.id} runs now, by hand: it will be in the way of the run by the clock.")


def cron_fires(stage: Stage) -> None:
    stage.tell.chapter("A cron, a minute later", "The full minute has come, and the task of the run before still runs.")
    schedule = _minutely(stage)
    if schedule is None:
        cron_begins(stage)
        schedule = _minutely(stage)
    assert schedule is not None
    try:
        run = _runs(stage, schedule, 2, "skipped")[-1]
        stage.tell.command(f"crawlfleet schedule show {schedule.id}")
        stage.tell.note(f"{run.run_at:%H:%M:%S} UTC: {run.reason}")
        stage.tell.check(
            (0, "skipped"), (run.run_at.second, run.status), "the second it was for, and what became of it"
        )
    finally:
        _end(stage, [schedule])


def _minutely(stage: Stage) -> ScheduleView | None:
    return next((one for one in stage.client.schedules() if one.name == _MINUTELY), None)


def _make(stage: Stage, overlap: str) -> ScheduleView:
    stage.tell.command(f"crawlfleet schedule add {_WORDS} --every {_EVERY_S}s --overlap {overlap} --name {overlap}")
    return stage.client.create_schedule(_LONG, every_s=_EVERY_S, overlap=overlap, name=overlap)


def _runs(stage: Stage, schedule: ScheduleView, count: int, last: str | None = None) -> list[RunView]:
    """Its runs, oldest first, once there are so many, and the last of them is as it should be."""
    found: list[RunView] = []

    def are_there() -> bool:
        found[:] = sorted(stage.client.schedule(schedule.id).last_runs or [], key=lambda run: run.run_at)
        return len(found) >= count and last in (None, found[-1].status)

    stage.until(are_there, f"the schedule has not come to {count} runs", 150)
    return found


def _end(stage: Stage, schedules: Iterable[ScheduleView]) -> None:
    """With the tasks that they made."""
    for schedule in schedules:
        stage.client.pause_schedule(schedule.id)
        for run in stage.client.schedule(schedule.id).last_runs or []:
            if run.task_id is not None:
                stage.note(run.task_id)
        stage.client.remove_schedule(schedule.id)
    stage.clear()
