"""When a wall clock is believed: what it makes look old is deleted."""

from __future__ import annotations

from crawlfleet.scheduling.nodes.clock_trust import PROBATION_S, RESTART_GAP_MS, ClockTrust
from testkit.clock import EPOCH, FakeClock

MONTH_MS = 31 * 86_400_000
MINUTE_S = 60.0


class Watched:
    """A clock, and the trust of a process that reads it every minute."""

    def __init__(self, mark: int | None = EPOCH) -> None:
        self.clock = FakeClock()
        self.mark = mark
        self.trust = ClockTrust()

    def pass_minutes(self, count: int = 1) -> list[bool]:
        judged = []
        for _ in range(count):
            self.clock.advance(MINUTE_S)
            judged.append(self.look())
        return judged

    def look(self) -> bool:
        is_believed = self.trust.observe(self.clock.now(), self.clock.monotonic(), self.mark)
        if is_believed:
            self.mark = self.clock.now()
        return is_believed

    def restart(self) -> None:
        self.trust = ClockTrust()


def test_a_clock_that_runs_as_the_monotonic_one_is_believed() -> None:
    watched = Watched()
    assert all(watched.pass_minutes(3 * 24 * 60))


def test_a_clock_a_month_ahead_for_a_minute_is_not_believed_for_that_minute() -> None:
    watched = Watched()
    watched.pass_minutes(10)
    watched.clock.jump(MONTH_MS)
    assert watched.pass_minutes(3) == [False] * 3
    watched.clock.jump(-MONTH_MS)
    assert watched.pass_minutes(3) == [True] * 3


def test_a_machine_that_was_suspended_is_believed_after_an_hour() -> None:
    watched = Watched()
    watched.pass_minutes(10)
    watched.clock.jump(MONTH_MS)
    judged = watched.pass_minutes(100)
    assert judged.index(True) == PROBATION_S / MINUTE_S
    assert all(judged[judged.index(True) :])


def test_every_jump_begins_the_hour_again() -> None:
    watched = Watched()
    watched.look()
    for _ in range(10):
        watched.clock.jump(MONTH_MS)
        assert not any(watched.pass_minutes(59))
    watched.clock.jump(-10 * MONTH_MS)
    assert watched.pass_minutes() == [True]


def test_a_clock_that_went_back_is_believed_and_its_way_forth_is_a_jump() -> None:
    watched = Watched()
    watched.pass_minutes(10)
    watched.clock.jump(-MONTH_MS)
    assert watched.pass_minutes(2) == [True, True]
    watched.clock.jump(MONTH_MS)
    assert watched.pass_minutes(2) == [False, False]


def test_a_slow_pass_of_an_hour_is_no_jump() -> None:
    watched = Watched()
    watched.look()
    watched.clock.advance(3_600)
    assert watched.look()


def test_a_restart_is_believed_by_the_mark_unless_it_is_far_ahead_of_it() -> None:
    watched = Watched()
    watched.pass_minutes(10)
    watched.restart()
    watched.clock.jump(RESTART_GAP_MS - 60_000)
    assert watched.pass_minutes() == [True]
    watched.restart()
    watched.clock.jump(MONTH_MS)
    assert watched.pass_minutes(2) == [False, False]


def test_a_clock_that_jumped_while_nothing_ran_is_right_again_after_the_next_restart() -> None:
    watched = Watched()
    watched.pass_minutes(10)
    watched.clock.jump(MONTH_MS)
    watched.restart()
    assert watched.pass_minutes(5) == [False] * 5
    watched.clock.jump(-MONTH_MS)
    watched.restart()
    assert watched.pass_minutes() == [True]


def test_without_a_mark_the_clock_is_believed_after_an_hour() -> None:
    watched = Watched(mark=None)
    judged = watched.pass_minutes(100)
    assert judged.index(True) == PROBATION_S / MINUTE_S
