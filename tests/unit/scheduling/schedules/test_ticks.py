"""Schedules by example: hours that are left out or come twice, what is caught up, what overlaps, bad times."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from crawlfleet.errors import InvalidInput
from crawlfleet.model.instants import Instant, from_text
from crawlfleet.model.schedule import CatchUp, Overlap, Schedule, Timing
from crawlfleet.scheduling.schedules import ticks
from crawlfleet.scheduling.schedules.ticks import BUSY, QUEUED, OverlapDecision, resolve_overlap

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOW = from_text("2026-01-01T00:00:00Z")


def walls(expression: str, zone: str, day: str, count: int) -> list[str]:
    """What the clock on the wall shows, from the beginning of the day on."""
    begin = round(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    found = islice(ticks.nominal_ticks(Timing(cron=expression, time_zone=zone), begin, begin - 1), count)
    return [datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).strftime("%d %H:%M %Z") for at in found]


def test_a_tick_in_the_hour_that_is_left_out_fires_where_it_would_have_ended() -> None:
    said = walls("30 2 * * *", "Europe/Berlin", "2026-03-28", 3)
    assert said == ["28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"]
    said = walls("15,45 2,3 * * *", "America/New_York", "2026-03-08", 3)
    assert said == ["08 03:00 EDT", "08 03:15 EDT", "08 03:45 EDT"]


def test_a_tick_in_the_hour_that_comes_twice_fires_the_first_time() -> None:
    said = walls("30 2 * * *", "Europe/Berlin", "2026-10-25", 2)
    assert said == ["25 02:30 CEST", "26 02:30 CET"]


def test_a_tick_that_goes_by_real_time_leaves_nothing_out_and_repeats_nothing() -> None:
    said = walls("*/30 * * * *", "Europe/Berlin", "2026-03-29", 6)
    assert said[3:] == ["29 01:30 CET", "29 03:00 CEST", "29 03:30 CEST"]
    said = walls("*/30 2 * * *", "Europe/Berlin", "2026-10-25", 5)
    assert said == ["25 02:00 CEST", "25 02:30 CEST", "25 02:00 CET", "25 02:30 CET", "26 02:00 CET"]


def test_a_shift_of_half_an_hour_loses_nothing() -> None:
    said = walls("17 */17 * * *", "Australia/Lord_Howe", "2026-10-04", 2)
    assert [one[:8] for one in said] == ["04 00:17", "04 17:17"]


def test_an_interval_counts_from_its_anchor_and_a_beginning_is_its_first_tick() -> None:
    assert list(islice(ticks.nominal_ticks(Timing(every_s=90), NOW, NOW), 2)) == [NOW + 90_000, NOW + 180_000]
    later = NOW + HOUR_MS
    assert next(ticks.nominal_ticks(Timing(every_s=90, starts_at=later), later, NOW)) == later
    ending = Timing(every_s=90, ends_at=NOW + 180_000)
    assert list(ticks.nominal_ticks(ending, NOW, NOW)) == [NOW + 90_000, NOW + 180_000]


BAD_TIMES: list[tuple[Timing, str]] = [
    (Timing(), "cron"),
    (Timing(at=NOW + 1_000, every_s=5), "every_s"),
    (Timing(every_s=5, cron="* * * * *"), "cron"),
    (Timing(every_s=0), "every_s"),
    (Timing(at=NOW), "at"),
    (Timing(at=NOW - HOUR_MS), "at"),
    (Timing(at=NOW + 60 * 366 * DAY_MS), "at"),
    (Timing(at=NOW + HOUR_MS, starts_at=NOW), "starts_at"),
    (Timing(at=NOW + HOUR_MS, ends_at=NOW + MINUTE_MS), "at"),
    (Timing(every_s=5, ends_at=NOW), "ends_at"),
    (Timing(every_s=5, ends_at=NOW + 4_000), "every_s"),
    (Timing(every_s=5, time_zone="Europe/Berlin"), "time_zone"),
    (Timing(every_s=5, starts_at=NOW + 60 * 366 * DAY_MS), "starts_at"),
    (Timing(cron="0 0 30 2 *"), "cron"),
    (Timing(cron="0 0 31 4,6 *"), "cron"),
    (Timing(cron="60 * * * *"), "cron"),
    (Timing(cron="* * * *"), "cron"),
    (Timing(cron="0 0 * * * *"), "cron"),
    (Timing(cron="@daily"), "cron"),
    (Timing(cron="* * * * *", time_zone="Mars/Olympus"), "time_zone"),
    (Timing(cron="* * * * *", time_zone="../../etc/passwd"), "time_zone"),
    (Timing(cron="* * * * *", time_zone="Europe"), "time_zone"),
    (Timing(cron="0 0 29 2 *", ends_at=NOW + 300 * DAY_MS), "cron"),
]


@pytest.mark.parametrize(("timing", "field"), BAD_TIMES)
def test_what_is_no_time_to_come_is_refused_by_name(timing: Timing, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ticks.check_timing(timing, NOW, NOW)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 L * *", "0 9 * * MON-FRI", "0 0 * 2 MON#5", "*/5 0-6 1,15 * *"]
)
def test_rare_and_odd_expressions_are_taken(expression: str) -> None:
    ticks.check_timing(Timing(cron=expression, time_zone="Europe/Berlin"), NOW, NOW)


def every_minute(catch_up: CatchUp, **fields: object) -> Schedule:
    timing, first = Timing(every_s=60), NOW + MINUTE_MS
    usual = Schedule(
        7, None, "", "echo", b"{}", timing, NOW, catch_up, Overlap.SKIP, False, NOW, "", NOW, NOW, first, first
    )
    return replace(usual, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_tick_in_time_fires_whatever_the_policy(catch_up: CatchUp) -> None:
    plan = ticks.plan_ticks(every_minute(catch_up), NOW + MINUTE_MS + 5_000)
    assert (plan.ticks, plan.missed, plan.next_at) == ([NOW + MINUTE_MS], None, NOW + 2 * MINUTE_MS)


def test_nothing_is_due_before_its_time_or_while_paused() -> None:
    early = ticks.plan_ticks(every_minute(CatchUp.ALL), NOW + MINUTE_MS - 1)
    assert (early.ticks, early.fired_until) == ((), NOW)
    assert ticks.plan_ticks(every_minute(CatchUp.ALL, next_at=None, due_at=None), NOW + HOUR_MS).ticks == ()


def minutes(*numbers: int) -> list[Instant]:
    return [NOW + number * MINUTE_MS for number in numbers]


def test_missed_ticks_by_policy() -> None:
    late = NOW + 5 * MINUTE_MS + 1
    plans = {catch_up: ticks.plan_ticks(every_minute(catch_up), late) for catch_up in CatchUp}
    assert plans[CatchUp.ALL].ticks == minutes(1, 2, 3, 4, 5)
    assert plans[CatchUp.ALL].missed is None
    # The newest has just come: that one is in time.
    for catch_up in (CatchUp.ONE, CatchUp.SKIP):
        assert plans[catch_up].ticks == minutes(5)
        assert plans[catch_up].missed == (NOW + MINUTE_MS, NOW + 4 * MINUTE_MS)
    assert {plan.next_at for plan in plans.values()} == {NOW + 6 * MINUTE_MS}


def test_what_came_too_late_is_left_out_only_where_that_is_wanted() -> None:
    daily = Timing(every_s=86_400)
    first = NOW + DAY_MS
    for catch_up, fired in ((CatchUp.SKIP, []), (CatchUp.ONE, [first]), (CatchUp.ALL, [first])):
        schedule = every_minute(catch_up, timing=daily, next_at=first, due_at=first)
        plan = ticks.plan_ticks(schedule, first + HOUR_MS)
        assert list(plan.ticks) == fired
        assert plan.missed == (None if fired else (first, first))
        assert ticks.plan_ticks(schedule, first + ticks.GRACE_MS).ticks == [first]


def test_only_so_many_are_caught_up_and_they_are_the_newest() -> None:
    plan = ticks.plan_ticks(every_minute(CatchUp.ALL), NOW + 365 * DAY_MS)
    assert len(plan.ticks) == 1_000
    assert plan.ticks[-1] == NOW + 365 * DAY_MS
    assert plan.missed == (NOW + MINUTE_MS, plan.ticks[0] - MINUTE_MS)


def test_next_runs_begin_with_the_one_whose_jitter_is_not_over() -> None:
    timing = Timing(every_s=60, jitter_s=60)
    coming = ticks.next_tick(7, timing, NOW, NOW)
    assert coming.at is not None
    assert coming.due_at is not None
    assert coming.at < coming.due_at
    schedule = every_minute(CatchUp.ONE, timing=timing, next_at=coming.at, due_at=coming.due_at)
    assert ticks.next_runs(schedule, coming.due_at - 1, 2)[0] == coming.due_at
    assert ticks.next_runs(schedule, NOW + HOUR_MS, 1)[0] > NOW + HOUR_MS
    assert ticks.next_runs(replace(schedule, is_paused=True), NOW, 2) == []


def test_turns_by_overlap() -> None:
    one, two, three = NOW, NOW + 1, NOW + 2
    assert resolve_overlap(Overlap.ALLOW, [one, two], is_busy=True) == OverlapDecision([one, two])
    assert resolve_overlap(Overlap.SKIP, [one, two], is_busy=True) == OverlapDecision(
        skipped=[(one, BUSY), (two, BUSY)]
    )
    assert resolve_overlap(Overlap.SKIP, [one, two], is_busy=False) == OverlapDecision([one], None, [(two, BUSY)])
    assert resolve_overlap(Overlap.QUEUE, [one, two], is_busy=True) == OverlapDecision((), one, [(two, QUEUED)])
    assert resolve_overlap(Overlap.QUEUE, [one, two, three], is_busy=False) == OverlapDecision(
        [one], two, [(three, QUEUED)]
    )
    assert resolve_overlap(Overlap.QUEUE, [one], is_busy=False) == OverlapDecision([one], skipped=[])
    cancelling = resolve_overlap(Overlap.CANCEL_PREVIOUS, [one, two], is_busy=True)
    assert (cancelling.fired, cancelling.is_cancelling, len(cancelling.skipped)) == ([two], True, 1)
    assert not resolve_overlap(Overlap.CANCEL_PREVIOUS, [one], is_busy=False).is_cancelling
    for overlap in Overlap:
        assert resolve_overlap(overlap, [], is_busy=True) == OverlapDecision([])
