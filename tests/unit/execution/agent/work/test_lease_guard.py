"""A node that cannot renew its lease stops its own work before the lease ends, whatever hangs or stood still."""

import asyncio
from pathlib import Path

import pytest

from crawlfleet.execution.agent.work.deadline_timer import CLOCK_CHECK_S
from crawlfleet.execution.agent.work.lease_guard import NodeLease
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import SyncDown, SyncVerdict
from testkit.clock import FakeClock
from tests.unit.execution.agent.agent_kit import (
    LEASE_MS,
    LoopClock,
    Master,
    Work,
    assignment,
    monotonic,
    node,
    stand_still,
    virtual,
)

SPAN_S = LEASE_MS / 1000 - 2
"""From the last answered sync's sending until work stops."""


@virtual
async def test_work_stops_two_seconds_before_the_lease_ends_while_the_master_hangs(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(30.5)
        answered_at = max(call.at for call in one.master.calls if call.future.done())
        one.master.is_hung = one.master.is_losing_answers = True
        await asyncio.sleep(answered_at + SPAN_S - 0.01 - monotonic())
        assert one.work.alive == {1, 2}
        await asyncio.sleep(60)
        assert one.work.alive == set()
        assert one.work.cancelled_at == pytest.approx({1: answered_at + SPAN_S, 2: answered_at + SPAN_S}, abs=0.001)
        assert one.said("lease_lapsed") == [{"session": 101, "executions": [1, 2]}]
        assert one.ended() == {1: [End.STOPPED], 2: [End.STOPPED]}


@virtual
async def test_while_the_master_says_ok_the_session_goes_on_after_a_lapse(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), work=Work(dying_s=1.0)) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.is_hung = True
        await asyncio.sleep(60)
        one.master.is_hung = False
        await asyncio.sleep(5)
        assert one.master.ends() == {1: [End.STOPPED]}
        assert len(one.master.opens) == 1
        one.master.give(2)
        await asyncio.sleep(0.1)
        assert one.work.alive == {2}
        await asyncio.sleep(60)
        assert one.work.alive == {2}, "the guard counts from the new answers"


@virtual
async def test_a_late_answer_counts_from_when_its_sync_was_sent(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.is_manual = True
        sent_at = one.master.calls[-1].at
        await asyncio.sleep(sent_at + 4.0 - monotonic())
        one.master.calls[-1 if one.master.calls[-1].at == sent_at else -2].reply()
        await asyncio.sleep(20)
        assert one.work.cancelled_at[1] == pytest.approx(sent_at + SPAN_S, abs=0.001)


@virtual
async def test_a_session_without_any_answered_sync_counts_from_its_opening(tmp_path: Path) -> None:
    opened_at = monotonic()
    master = Master()
    master.is_manual = True
    async with node(tmp_path, master) as one:
        one.agent._runner.accept_assignment(assignment(1))
        await asyncio.sleep(20)
        assert one.work.cancelled_at[1] == pytest.approx(opened_at + SPAN_S, abs=0.001)


@virtual
async def test_a_machine_that_slept_past_its_lease_stops_its_work_when_it_wakes(tmp_path: Path) -> None:
    clock = LoopClock()
    async with node(tmp_path, Master(), clock=clock) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.is_hung = True
        woken_at = monotonic()
        clock.suspend(3_600)
        await asyncio.sleep(CLOCK_CHECK_S + 0.01)
        assert one.work.alive == set(), "the timer of the lease would have had seconds left"
        assert one.work.cancelled_at[1] <= woken_at + CLOCK_CHECK_S


@virtual
async def test_leaving_after_the_machine_slept_takes_as_long_as_was_asked_for(tmp_path: Path) -> None:
    clock = LoopClock()
    clock.suspend(3_600)
    async with node(tmp_path, Master(), clock=clock, work=Work(dying_s=1_000)) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.is_hung = True
        one.agent.request_leave(5.0)
        began_at = monotonic()
        await asyncio.sleep(5.0 + 8.0 - 0.01)
        assert not one.said("left")
        await one.kill()
        assert monotonic() - began_at < 20


@virtual
async def test_how_a_lease_is_counted() -> None:
    lease = NodeLease(LoopClock())
    assert lease.left_s <= 0, "no session, no work"
    opened_at = monotonic()
    lease.start(9.0, opened_at)
    assert lease.left_s == pytest.approx(7)
    lease.renew(opened_at - 5)
    assert lease.left_s == pytest.approx(7), "an older answer does not shorten it"
    await asyncio.sleep(7)
    lease.renew(opened_at + 4)
    assert lease.left_s == pytest.approx(4)
    lease.start(3.0, monotonic())
    assert lease.left_s == pytest.approx(2), "of a short lease the margin takes no more than a third"
    lease.clear()
    assert lease.left_s <= 0


@pytest.mark.parametrize(
    ("lease_s", "margin_s", "span_s"),
    [(9.0, 2.0, 7.0), (9.0, 0.0, 9.0), (90.0, 2.0, 88.0), (3.0, 2.0, 2.0), (1.0, 2.0, 2 / 3)],
)
def test_a_node_stops_a_margin_before_the_end(lease_s: float, margin_s: float, span_s: float) -> None:
    """Of a short lease the margin takes no more than a third."""
    lease = NodeLease(FakeClock(), margin_s)
    lease.start(lease_s, 100.0)
    assert lease.stop_at == pytest.approx(100.0 + span_s)


@pytest.mark.parametrize(
    ("now", "is_over"),
    [
        (100.0, False),
        (103.4, False),
        (103.5, False),
        (106.9, False),
        (107.0, True),
        (108.9, True),
        (109.0, True),
        (500.0, True),
    ],
)
def test_what_a_node_may_do_as_its_lease_runs_out(now: float, is_over: bool) -> None:
    clock = FakeClock()
    clock.advance(now)
    lease = NodeLease(clock)
    lease.start(9.0, 100.0)
    assert lease.is_over is is_over


def test_a_node_that_was_never_answered_holds_no_lease() -> None:
    assert NodeLease(FakeClock()).is_over


@virtual
async def test_a_stale_answer_renews_nothing(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(3)
        one.master.standing = SyncDown(SyncVerdict.STALE_NUMBER)
        await asyncio.sleep(12)
        assert one.ended() == {1: [End.STOPPED]}


@pytest.mark.parametrize("paused_s", [8.0, 100.0])
@virtual
async def test_what_completes_while_the_process_stands_still_is_not_complete(tmp_path: Path, paused_s: float) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(5.5)
        # The executor's word is already there when the process wakes up, ahead of every timer.
        one.work.end(1)
        stand_still(paused_s)
        await asyncio.sleep(5)
        assert one.ended() == {1: [End.STOPPED], 2: [End.STOPPED]}
        assert one.master.ends() == {1: [End.STOPPED], 2: [End.STOPPED]}


@virtual
async def test_a_short_pause_harms_nothing(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(5.5)
        one.work.end(1)
        stand_still(3.0)
        await asyncio.sleep(5)
        assert one.master.ends() == {1: [End.COMPLETED]}
        assert one.work.alive == {2}


@virtual
async def test_an_answer_older_than_a_lease_starts_nothing(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(1)
        one.master.is_manual = True
        one.master.calls[-1].reply(SyncDown(SyncVerdict.OK, assignments=[assignment(1)]))
        stand_still(30.0)
        await asyncio.sleep(0.5)
        assert one.work.runs == []
        assert one.master.last.held == [], "the master will see that the node lacks it"
        assert one.ended() == {}


@virtual
async def test_work_accepted_before_the_pause_but_not_begun_does_not_begin_after_it(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(1)
        one.agent._runner.accept_assignment(assignment(1))
        stand_still(30.0)
        await asyncio.sleep(5)
        assert one.work.runs == []
        assert one.ended() == {1: [End.STOPPED]}


@virtual
async def test_completed_before_the_lapse_stays_completed(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.is_hung = True
        await asyncio.sleep(2)
        one.work.end(1)
        await asyncio.sleep(60)
        one.master.is_hung = False
        await asyncio.sleep(5)
        assert one.master.ends() == {1: [End.COMPLETED]}, "the master decides whether it still counts"
        assert one.master.taken[0].started_ms_ago == pytest.approx(63_000, abs=5_000)


@virtual
async def test_work_that_waits_for_a_slot_is_given_up_with_the_lease(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=2) as one:
        one.master.give(1, 2, 3)
        await asyncio.sleep(1)
        one.master.is_hung = True
        await asyncio.sleep(30)
        assert one.work.runs == [1]
        assert one.ended() == {1: [End.STOPPED], 2: [End.STOPPED], 3: [End.STOPPED]}
