"""Checks of schedules and of target hosts."""

from __future__ import annotations

from collections.abc import Iterator

from crawlfleet.model.ids import schedule_text
from crawlfleet.model.instants import Instant, to_text
from crawlfleet.model.schedule import Schedule
from crawlfleet.scheduling.doctor.findings import FoundProblem, note, warning
from crawlfleet.scheduling.doctor.snapshot import HostPart, SchedulePart
from crawlfleet.scheduling.doctor.wording import count_text, span_text
from crawlfleet.scheduling.schedules.cron import find_skipped_time

LATE_MS = 120_000
HELD_MS = 3_600_000
AHEAD_MS = 8 * 86_400_000
MAX_PROBLEMS = 20
BLOCKED_PART, LEAST_REQUESTS = 0.5, 20
HIGH_LEVEL = 5


def find_missed_ticks(schedules: SchedulePart, now: Instant) -> Iterator[FoundProblem]:
    problems = [problem for schedule in schedules.schedules for problem in _judge_schedule(schedules, schedule, now)]
    yield from problems[:MAX_PROBLEMS]
    if len(problems) > MAX_PROBLEMS:
        yield note(f"{len(problems) - MAX_PROBLEMS:,} more schedules are alike", "crawlfleet schedule list")
    if schedules.has_more:
        yield note(f"only the newest {len(schedules.schedules):,} schedules were looked at", "crawlfleet schedule list")


def _judge_schedule(part: SchedulePart, schedule: Schedule, now: Instant) -> Iterator[FoundProblem]:
    if schedule.is_paused:
        return
    name = schedule.name or schedule_text(schedule.id)
    show = f"crawlfleet schedule show {schedule_text(schedule.id)}"
    if schedule.due_at is not None and now - schedule.due_at > LATE_MS:
        late = span_text((now - schedule.due_at) / 1000)
        yield warning(f"schedule {name} is {late} late with its tick", f"does a master lead? {show}")
    if schedule.held_at is not None and now - schedule.held_at > HELD_MS:
        held = span_text((now - schedule.held_at) / 1000)
        yield warning(
            f"schedule {name} has held a tick for {held} behind a run that has not ended",
            f"{show}; overlap allow, skip or cancel_previous decides what happens then",
        )
    if missed := part.missed.get(schedule.id):
        reason = f": {missed.reason}" if missed.reason else ""
        yield warning(
            f"schedule {name} left out {count_text(missed.ticks, 'tick')} in the last day{reason}",
            f"{show}; overlap and catch_up decide what is left out",
        )
    if schedule.last_error:
        yield warning(f"schedule {name} could not submit its task: {schedule.last_error}", show)
    timing = schedule.timing
    if timing.cron is not None:
        skipped = find_skipped_time(timing.cron, timing.time_zone, now, now + AHEAD_MS)
        if skipped is not None:
            yield note(
                f"schedule {name} names {skipped:%Y-%m-%d %H:%M} ({timing.time_zone}), which is left out",
                "another time, or time_zone UTC",
            )


def find_refusing_hosts(hosts: HostPart, now: Instant) -> Iterator[FoundProblem]:
    for condition in hosts.hosts[:MAX_PROBLEMS]:
        host, backoff = condition.host, condition.host.backoff
        if backoff.is_on(now) and condition.waiting:
            yield warning(
                f"host {host.name} is in back-off until {to_text(backoff.until)} (level {backoff.level}: "
                f"{backoff.reason}), with {count_text(condition.waiting, 'task')} waiting",
                f"a lower rate: crawlfleet host set {host.name} --rate 1; or crawlfleet host forgive {host.name}",
            )
        elif backoff.is_on(now) and backoff.level >= HIGH_LEVEL:
            yield warning(
                f"host {host.name} is in back-off of level {backoff.level}: {backoff.reason}",
                f"a lower rate: crawlfleet host set {host.name} --rate 1",
            )
        if condition.requests >= LEAST_REQUESTS and condition.blocked / condition.requests >= BLOCKED_PART:
            yield warning(
                f"{condition.blocked / condition.requests:.0%} of {condition.requests:,} requests to host {host.name} "
                "were blocked in the last hour",
                f"a lower rate or a proxy: crawlfleet host show {host.name}",
            )
