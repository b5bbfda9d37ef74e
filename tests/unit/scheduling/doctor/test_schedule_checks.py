"""Checks of schedules and hosts: each says its sentence when its cause is there."""

from crawlfleet.model.host import Backoff, Host
from crawlfleet.model.instants import from_text
from crawlfleet.model.schedule import Timing
from crawlfleet.scheduling.doctor.findings import FindingSeverity
from crawlfleet.scheduling.doctor.snapshot import HostCondition, HostPart, MissedTicks, SchedulePart
from tests.unit.scheduling.doctor.doctor_kit import HOUR_MS, NOW, only_problem, problems, schedule

MARCH = from_text("2026-03-25T00:00:00Z")
"""Four days before the clocks of Europe go forward."""


def test_a_tick_that_is_late_is_told() -> None:
    late = schedule(due_at=NOW - 300_000)
    assert only_problem("D26", schedules=SchedulePart([late])).sentence == (
        "schedule nightly is 5 minutes late with its tick"
    )
    assert problems("D26", schedules=SchedulePart([schedule(due_at=NOW - 300_000, is_paused=True)])) == []


def test_a_tick_that_is_held_for_long_is_told() -> None:
    finding = only_problem("D26", schedules=SchedulePart([schedule(held_at=NOW - 5 * HOUR_MS, held_for=9)]))
    assert "has held a tick for 5 hours" in finding.sentence


def test_ticks_that_were_left_out_and_errors_are_told() -> None:
    part = SchedulePart([schedule()], {7: MissedTicks(3, "the one before had not ended")})
    assert only_problem("D26", schedules=part).sentence == (
        "schedule nightly left out 3 ticks in the last day: the one before had not ended"
    )
    finding = only_problem("D26", schedules=SchedulePart([schedule(name=None, last_error="no such type")]))
    assert finding.sentence == "schedule schedule-0000000000000007 could not submit its task: no such type"


def test_a_time_that_daylight_saving_leaves_out_is_a_note() -> None:
    skipped = schedule(timing=Timing(cron="30 2 * * *", time_zone="Europe/Berlin"), due_at=MARCH + HOUR_MS)
    finding = only_problem("D26", schedules=SchedulePart([skipped]), now=MARCH)
    assert finding.severity is FindingSeverity.NOTE
    assert finding.sentence == "schedule nightly names 2026-03-29 02:30 (Europe/Berlin), which is left out"
    other = schedule(timing=Timing(cron="30 4 * * *", time_zone="Europe/Berlin"), due_at=MARCH + HOUR_MS)
    assert problems("D26", schedules=SchedulePart([other]), now=MARCH) == []
    in_utc = schedule(timing=Timing(cron="30 2 * * *"), due_at=MARCH + HOUR_MS)
    assert problems("D26", schedules=SchedulePart([in_utc]), now=MARCH) == []


def test_many_schedules_in_trouble_are_cut() -> None:
    late = [schedule(id=number, due_at=NOW - 300_000) for number in range(1, 101)]
    found = problems("D26", schedules=SchedulePart(late, has_more=True))
    assert [finding.sentence for finding in found[-2:]] == [
        "80 more schedules are alike",
        "only the newest 100 schedules were looked at",
    ]


def test_a_host_in_back_off_with_tasks_is_told() -> None:
    host = Host("example.com", backoff=Backoff(3, NOW + HOUR_MS, reason="answered 429"))
    finding = only_problem("D27", hosts=HostPart([HostCondition(host, 12)]))
    assert finding.sentence.endswith("(level 3: answered 429), with 12 tasks waiting")
    assert "crawlfleet host forgive example.com" in finding.hint
    assert problems("D27", hosts=HostPart([HostCondition(host)])) == [], "nothing waits, and the level is low"
    high = Host("example.com", backoff=Backoff(5, NOW + HOUR_MS, reason="answered 429"))
    assert "of level 5" in only_problem("D27", hosts=HostPart([HostCondition(high)])).sentence
    over = Host("example.com", backoff=Backoff(5, NOW - 1))
    assert problems("D27", hosts=HostPart([HostCondition(over, 3)])) == []


def test_a_host_that_blocks_is_told() -> None:
    finding = only_problem("D27", hosts=HostPart([HostCondition(Host("example.com"), 0, 40, 20)]))
    assert finding.sentence == "50% of 40 requests to host example.com were blocked in the last hour"
    assert problems("D27", hosts=HostPart([HostCondition(Host("example.com"), 0, 19, 19)])) == []
