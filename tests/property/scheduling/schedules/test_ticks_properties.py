"""Nominal instants: ascending, each once, the same from wherever one begins, right through the shifts of a year."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawlfleet.errors import InvalidInput
from crawlfleet.model import limits
from crawlfleet.model.instants import Instant
from crawlfleet.model.schedule import CatchUp, Overlap, Plan, Schedule, Timing
from crawlfleet.scheduling.schedules import cron, ticks

DAY_MS = 86_400_000
MINUTE_MS = 60_000
SETTINGS = settings(max_examples=60, derandomize=True, database=None)
YEAR = 2026
# Shifts of an hour, of half an hour, at midnight, in the south, and none at all.
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Cairo",
    "America/Santiago",
    "Asia/Kathmandu",
    "UTC",
)


def instant(*moment: int) -> Instant:
    return int(datetime(*moment, tzinfo=UTC).timestamp()) * 1000  # type: ignore[misc, arg-type]


def shifts(zone: str) -> list[Instant]:
    """The first minute of every new offset in the year."""
    found = []
    hour, known = datetime(YEAR, 1, 1, tzinfo=UTC), ZoneInfo(zone)
    while hour.year == YEAR:
        following = hour + timedelta(minutes=30)
        if hour.astimezone(known).utcoffset() != following.astimezone(known).utcoffset():
            found.append(int(following.timestamp()) * 1000)
        hour = following
    return found


SHIFTS = {zone: shifts(zone) for zone in ZONES}


def number(low: int, high: int) -> st.SearchStrategy[str]:
    single = st.integers(low, high).map(str)
    span = st.tuples(st.integers(low, high), st.integers(low, high)).map(lambda two: f"{min(two)}-{max(two)}")
    return st.one_of(single, span, st.lists(single, min_size=2, max_size=3).map(",".join))


def field(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.integers(1, high).map(lambda step: f"*/{step}"), number(low, high))


DAYS = st.sampled_from(["* * *"] * 4 + ["* * 0", "* * 1-5", "29 3 *", "* 3,4,9-11 *", "* * SUN#1"])
EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), DAYS).map(" ".join)
NAMED = st.tuples(number(0, 59), number(0, 23)).map(lambda two: f"{two[0]} {two[1]} * * *")
BY_REAL_TIME = st.tuples(st.sampled_from(["*", "*/7"]), field(0, 23)).map(lambda two: f"{two[0]} {two[1]} * * *")


@st.composite
def places(draw: st.DrawFn) -> tuple[str, Instant]:
    """A zone, and an instant within some hours of a shift in it if it has any."""
    zone = draw(st.sampled_from(ZONES))
    near = draw(st.sampled_from(SHIFTS[zone] or [instant(YEAR, 6, 1)]))
    return zone, near + draw(st.integers(-DAY_MS // 4, DAY_MS // 8))


def until(expression: str, zone: str, after: Instant, end: Instant) -> list[Instant]:
    return list(takewhile(lambda at: at <= end, cron.cron_instants(expression, zone, after)))


@given(EXPRESSIONS, places(), st.lists(st.integers(0, DAY_MS), max_size=4))
@settings(SETTINGS, max_examples=40)
@example("17 */17 * * *", ("Australia/Lord_Howe", instant(YEAR, 10, 3, 20)), [0])
@example("*/15 1 * * *", ("Australia/Lord_Howe", instant(YEAR, 4, 4, 14, 40)), [0, 1])
def test_instants_are_the_same_from_wherever_one_begins(
    expression: str, place: tuple[str, Instant], steps: list[int]
) -> None:
    zone, begin = place
    end = begin + DAY_MS
    whole = until(expression, zone, begin, end)
    assert whole == sorted(set(whole))
    assert all(at > begin for at in whole)
    for step in steps:
        assert until(expression, zone, begin + step, end) == [at for at in whole if at > begin + step]


@given(BY_REAL_TIME, places())
@settings(SETTINGS, max_examples=40)
def test_by_real_time_every_minute_that_reads_so_fires_once(expression: str, place: tuple[str, Instant]) -> None:
    zone, begin = place
    begin -= begin % MINUTE_MS
    end = begin + DAY_MS // 4
    minutes = range(begin + MINUTE_MS, end + 1, MINUTE_MS)
    assert until(expression, zone, begin, end) == [at for at in minutes if reads(expression, zone, at)]


def reads(expression: str, zone: str, at: Instant) -> bool:
    """Whether a clock on the wall shows a time of the expression."""
    wall = datetime.fromtimestamp(at // 1000, ZoneInfo(zone)).replace(tzinfo=None, fold=0)
    named: datetime = next(CronSim(expression, wall - timedelta(seconds=1)))
    return named == wall


@given(NAMED, st.sampled_from(ZONES))
@settings(SETTINGS, max_examples=40)
def test_what_is_named_by_its_hour_fires_once_a_day_and_never_twice_for_one_time(expression: str, zone: str) -> None:
    for shift in SHIFTS[zone]:
        begin, end = shift - 2 * DAY_MS, shift + 2 * DAY_MS
        fired = until(expression, zone, begin, end)
        walls = [datetime.fromtimestamp(at // 1000, ZoneInfo(zone)).replace(fold=0) for at in fired]
        assert len({wall.replace(tzinfo=None) for wall in walls}) == len(walls)
        named = CronSim(expression, datetime.fromtimestamp(begin // 1000, ZoneInfo(zone)).replace(tzinfo=None))
        last = datetime.fromtimestamp(end // 1000, ZoneInfo(zone)).replace(tzinfo=None)
        wanted = set(takewhile(last.__ge__, named))
        moved = [wall for wall in walls if wall.replace(tzinfo=None) not in wanted]
        # What has no place in the day fires where the hour that is left out would have ended: at the shift.
        assert all(int(wall.timestamp()) * 1000 == shift for wall in moved)
        missing = wanted - {wall.replace(tzinfo=None) for wall in walls}
        assert all(is_in_gap(wall, zone) for wall in missing)
        assert not missing or shift in fired


def is_in_gap(wall: datetime, zone: str) -> bool:
    there = wall.replace(tzinfo=ZoneInfo(zone))
    return there.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) != wall


@settings(SETTINGS)
@given(st.integers(1, limits.EVERY_S_MAX), st.integers(0, 10**9), st.integers(0, 10**12))
def test_an_interval_does_not_drift(every_s: int, anchor_s: int, ms: int) -> None:
    anchor, timing = anchor_s * 1000, Timing(every_s=every_s)
    found = list(islice(ticks.nominal_ticks(timing, anchor, anchor + ms), 5))
    assert all((at - anchor) % (every_s * 1000) == 0 for at in found)
    assert anchor + ms < found[0] <= anchor + ms + every_s * 1000
    assert [b - a for a, b in pairwise(found)] == [every_s * 1000] * 4


@st.composite
def timings(draw: st.DrawFn) -> Timing:
    jitter_s = draw(st.sampled_from([0, 0, 5, 3_600, 86_400]))
    if draw(st.booleans()):
        return Timing(every_s=draw(st.integers(1, 5_000)), jitter_s=jitter_s)
    return Timing(cron=draw(EXPRESSIONS), time_zone=draw(st.sampled_from(ZONES)), jitter_s=jitter_s)


def a_schedule(timing: Timing, now: Instant, catch_up: CatchUp = CatchUp.ALL) -> Schedule:
    coming = ticks.next_tick(7, timing, now, now)
    return Schedule(
        7,
        None,
        "",
        "echo",
        b"{}",
        timing,
        now,
        catch_up,
        Overlap.ALLOW,
        False,
        now,
        "",
        now,
        now,
        coming.at,
        coming.due_at,
    )


@given(timings(), st.sampled_from(CatchUp), st.lists(st.integers(-DAY_MS // 2, DAY_MS), min_size=1, max_size=8))
@settings(SETTINGS, max_examples=40)
def test_each_tick_has_its_turn_once_however_clocks_jump(timing: Timing, catch_up: CatchUp, jumps: list[int]) -> None:
    begin = now = instant(YEAR, 3, 28, 20, 30)
    schedule = a_schedule(timing, now, catch_up)
    fired: list[Instant] = []
    left_out: list[tuple[Instant, Instant]] = []
    for jump in jumps:
        now += jump
        plan = ticks.plan_ticks(schedule, now)
        assert all(begin < at <= now for at in plan.ticks)
        assert plan.fired_until >= schedule.fired_until
        fired += plan.ticks
        left_out += [plan.missed] if plan.missed else []
        schedule = _replaced(schedule, plan)
        assert schedule.next_at is not None
        assert schedule.due_at is not None
        assert schedule.due_at > now or not plan.ticks
    assert fired == sorted(set(fired))
    every = set(takewhile(lambda at: at <= schedule.fired_until, ticks.nominal_ticks(timing, begin, begin)))
    missed = {at for at in every if any(first <= at <= last for first, last in left_out)}
    assert every == missed | set(fired)
    assert not missed & set(fired)
    if catch_up is CatchUp.ALL and len(every) <= limits.TICKS_CAUGHT_UP:
        assert not missed


def _replaced(schedule: Schedule, plan: Plan) -> Schedule:
    return replace(schedule, fired_until=plan.fired_until, next_at=plan.next_at, due_at=plan.due_at)


@given(timings(), st.integers(0, 2 * DAY_MS), st.integers(1, 1 << 62))
@settings(SETTINGS, max_examples=100)
def test_jitter_is_the_same_every_time_and_never_reaches_the_next_tick(timing: Timing, ms: int, number: int) -> None:
    begin = instant(YEAR, 10, 24) + ms
    first, second = islice(ticks.nominal_ticks(timing, begin, begin), 2)
    due = ticks.tick_due_at(number, timing, begin, first)
    assert first <= due < second
    assert due - first <= timing.jitter_s * 1000
    assert due == ticks.tick_due_at(number, timing, begin, first)


@given(st.text(alphabet="0123456789*/-,L#WMONSUNJAN? \n٣²ß", max_size=30))
@settings(SETTINGS, max_examples=200)
def test_what_is_no_expression_is_refused_by_name(text: str) -> None:
    try:
        cron.check_expression(text)
    except InvalidInput as exc:
        assert exc.field == "cron"
        return
    now = instant(YEAR, 1, 1)
    assert all(at > now for at in islice(cron.cron_instants(text, "Europe/Berlin", now), 2))


@settings(SETTINGS)
@given(st.text(max_size=100))
def test_what_is_no_time_zone_is_refused_by_name(text: str) -> None:
    if text not in ZONES:
        with pytest.raises(InvalidInput) as refused:
            cron.find_time_zone(text)
        assert refused.value.field == "time_zone"
