"""`crawlfleet schedule`: tasks submitted at a time, every so often, or by cron."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crawlfleet.cli import values
from crawlfleet.cli.command import Call, JsonOption, api_command, local_command
from crawlfleet.cli.exit_codes import usage_error
from crawlfleet.cli.output import Output, display_text, to_builtins, trim_instants
from crawlfleet.cli.work import task as tasks

if TYPE_CHECKING:
    from crawlfleet.client._generated.models import ScheduleView

app = typer.Typer(no_args_is_help=True)

ScheduleId = Annotated[str, typer.Argument(help="The schedule's id.", show_default=False)]
CronOption = Annotated[
    str | None, typer.Option("--cron", help="Minute, hour, day of month, month, day of week: '0 9 * * 1-5'.")
]
ZoneOption = Annotated[
    str | None, typer.Option("--time-zone", help="Of --cron, such as Europe/Berlin; UTC unless told otherwise.")
]
EveryOption = Annotated[str | None, typer.Option("--every", help="An interval: 90s, 15m, 6h, 1d.")]
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class CatchUp(StrEnum):
    SKIP = "skip"
    ONE = "one"
    ALL = "all"


class Overlap(StrEnum):
    ALLOW = "allow"
    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel_previous"


@api_command(
    app,
    "add",
    """crawlfleet schedule add web_crawl --params '{"url": "https://example.com"}' --cron '0 3 * * *' """
    "--time-zone Europe/Berlin",
    "crawlfleet schedule add echo --every 15m --overlap queue --name heartbeat",
    "crawlfleet schedule add my_type --params @params.json --at 2030-01-31T12:00:00Z --field queue=slow",
)
def add_schedule(
    call: Call,
    task_type: Annotated[str, typer.Argument(help="What to run: crawlfleet task types lists them.")],
    params: tasks.ParamsOption = "{}",
    param: tasks.ParamOption = None,
    at: Annotated[str | None, typer.Option("--at", help="Once, at this time: 2030-01-31T12:00:00Z.")] = None,
    every: EveryOption = None,
    cron: CronOption = None,
    time_zone: ZoneOption = None,
    starts_at: Annotated[str | None, typer.Option("--starts-at", help="Not before; --every counts from it.")] = None,
    ends_at: Annotated[str | None, typer.Option("--ends-at", help="Not after.")] = None,
    jitter: Annotated[int, typer.Option("--jitter", help="Up to so many seconds later, by chance.", min=0)] = 0,
    catch_up: Annotated[CatchUp, typer.Option("--catch-up", help="Of runs nobody could start.")] = CatchUp.ONE,
    overlap: Annotated[Overlap, typer.Option("--overlap", help="While the run before goes on.")] = Overlap.SKIP,
    paused: Annotated[bool, typer.Option("--paused", help="Paused until it is resumed.")] = False,
    name: Annotated[str | None, typer.Option("--name", help="A name for people.")] = None,
    priority: tasks.PriorityOption = "5",
    project: Annotated[str | None, typer.Option("--project", help="The project its tasks belong to.")] = None,
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--field", help="Any other field of a task, as NAME=VALUE. May be repeated.", metavar="NAME=VALUE"
        ),
    ] = None,
) -> None:
    """Submit a task at a time, every interval or by cron: give one of --at, --every and --cron. Prints its id."""
    if sum(timing is not None for timing in (at, every, cron)) != 1:
        usage_error("give one of --at, --every and --cron", "an example: --cron '0 3 * * *'")
    task: dict[str, Any] = {"task_type": task_type, "parameters": values.parse_parameters(params, param)}
    task |= {"priority": values.read_priority(priority, call)} | ({} if project is None else {"project_id": project})
    others = {"name": name, "starts_at": starts_at, "ends_at": ends_at}
    schedule = call.client.create_schedule(
        task | values.parse_pairs(field or [], "--field"),
        at=at,
        every_s=_parse_interval(every),
        cron=cron,
        time_zone=time_zone,
        jitter_s=jitter,
        catch_up=catch_up.value,
        overlap=overlap.value,
        is_paused=paused,
        **{key: value for key, value in others.items() if value is not None},
    )
    call.out.print_answer(schedule, schedule.id)


@api_command(app, "list", "crawlfleet schedule list", "crawlfleet schedule list --project shop --json")
def list_schedules(
    call: Call,
    project: tasks.ProjectOption = None,
    type: tasks.TypeOption = None,
    limit: Annotated[int, typer.Option("--limit", help="How many at most.", min=1)] = 50,
) -> None:
    """List schedules, newest first."""
    schedules = list(call.client.schedules(project_id=project, task_type=type, limit=limit))
    call.out.print_listing(
        "schedules",
        schedules,
        ("SCHEDULE", "NAME", "TYPE", "WHEN", "STATE", "NEXT RUN", "LAST ERROR"),
        lambda schedule: (
            schedule.id,
            schedule.name,
            schedule.task["task_type"],
            timing_text(schedule),
            schedule.status,
            schedule.next_run_at,
            schedule.last_error,
        ),
        empty="no schedules",
        prose=("NAME", "LAST ERROR"),
        drop=("NAME", "STATE", "LAST ERROR"),
    )


@api_command(app, "show", "crawlfleet schedule show schedule-0123456789abcdef")
def show_schedule(call: Call, schedule_id: ScheduleId) -> None:
    """Show a schedule with its next runs and what became of its last ones."""
    schedule = call.client.schedule(schedule_id)
    if call.out.is_json:
        call.out.print_json(schedule)
        return
    fields = to_builtins(schedule)
    for name in ("next_runs", "last_runs"):
        fields.pop(name)
    call.out.print_record(fields)
    for run in schedule.next_runs or []:
        call.out.print_record({"next run": run})
    call.out.print_text("")
    call.out.print_table(
        ("RUN", "STATUS", "TASK", "TASK STATUS", "REASON"),
        [(tick.run_at, tick.status, tick.task_id, tick.task_status, tick.reason) for tick in schedule.last_runs or []],
        empty="no runs yet",
        prose=("REASON",),
        drop=("TASK STATUS",),
    )


@api_command(app, "pause", "crawlfleet schedule pause schedule-0123456789abcdef")
def pause_schedule(call: Call, schedule_id: ScheduleId) -> None:
    """Pause a schedule: its runs are left out until it is resumed."""
    _print_schedule(call, call.client.pause_schedule(schedule_id))


@api_command(app, "resume", "crawlfleet schedule resume schedule-0123456789abcdef")
def resume_schedule(call: Call, schedule_id: ScheduleId) -> None:
    """Resume a paused schedule, from now on."""
    _print_schedule(call, call.client.resume_schedule(schedule_id))


@api_command(
    app,
    "run",
    "crawlfleet schedule run schedule-0123456789abcdef",
    "crawlfleet schedule run schedule-0123456789abcdef --force",
)
def run_schedule(
    call: Call,
    schedule_id: ScheduleId,
    force: Annotated[bool, typer.Option("--force", help="Also while another run of it goes on.")] = False,
) -> None:
    """Submit its task now, outside of its times. Prints the id of the task."""
    task = call.client.run_schedule(schedule_id, force=force)
    call.out.print_answer(task, task.id)


@api_command(app, "remove", "crawlfleet schedule remove schedule-0123456789abcdef")
def remove_schedules(
    call: Call, schedule_ids: Annotated[list[str], typer.Argument(help="Ids of schedules.", show_default=False)]
) -> None:
    """Remove schedules. Tasks that they made stay."""
    for schedule_id in schedule_ids:
        call.client.remove_schedule(schedule_id)
        if not call.out.is_json:
            call.out.print_text(f"{schedule_id}: removed")
    if call.out.is_json:
        call.out.print_json({"removed": schedule_ids})


@local_command(
    app,
    "next",
    "crawlfleet schedule next --cron '30 2 * * *' --time-zone Europe/Berlin",
    "crawlfleet schedule next --cron '0 9 * * MON-FRI' --count 10 --json",
)
def preview_runs(
    cron: CronOption = None,
    time_zone: ZoneOption = None,
    every: EveryOption = None,
    count: Annotated[int, typer.Option("--count", help="How many.", min=1, max=1_000)] = 5,
    json: JsonOption = False,
) -> None:
    """Print when a schedule would run, without making one; no master is asked."""
    from datetime import datetime
    from itertools import islice

    from crawlfleet.errors import InvalidInput
    from crawlfleet.model.instants import to_text
    from crawlfleet.model.schedule import DEFAULT_ZONE, Timing
    from crawlfleet.scheduling.schedules import ticks
    from crawlfleet.scheduling.schedules.cron import find_time_zone

    now = int(time.time()) * 1000
    timing = Timing(every_s=_parse_interval(every), cron=cron, time_zone=time_zone or DEFAULT_ZONE)
    try:
        ticks.check_timing(timing, now, now)
    except InvalidInput as exc:
        option = {"time_zone": "--time-zone", "every_s": "--every"}.get(exc.field or "", "--cron")
        usage_error(f"{option}: {exc.detail}")
    zone = find_time_zone(timing.time_zone)
    runs = list(islice(ticks.nominal_ticks(timing, now, now), count))
    moments = [datetime.fromtimestamp(run_at / 1000, zone) for run_at in runs]
    local = [f"{moment.isoformat()} {moment:%a}" for moment in moments]
    Output(is_json=json).print_listing(
        "runs",
        [{"at": to_text(run_at), "local": text} for run_at, text in zip(runs, local, strict=True)],
        ("UTC", timing.time_zone),
        lambda one: (trim_instants(one["at"]), one["local"]),
    )


def timing_text(schedule: ScheduleView) -> str:
    if schedule.cron is not None:
        return f"{schedule.cron} {schedule.time_zone}"
    return f"every {schedule.every_s} s" if schedule.every_s is not None else f"at {display_text(schedule.at)}"


def _print_schedule(call: Call, schedule: ScheduleView) -> None:
    coming = f", next run {display_text(schedule.next_run_at)}" if schedule.next_run_at else ""
    call.out.print_answer(schedule, f"{schedule.id}: {schedule.status}{coming}")


def _parse_interval(text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in _UNIT_S or not (number.isascii() and number.isdigit()) or len(number) > 9:
        usage_error(f"--every: {text!r} is no interval", "a number with s, m, h, d or w: 90s, 15m, 6h, 1d")
    return int(number) * _UNIT_S[unit]
