"""The sync loop: one call parked, news at once, never more than two under way, and many tries within a lease."""

import asyncio
import errno
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawlfleet.errors import InvalidInput, NotAllowed, SessionEnded
from crawlfleet.execution.agent import outbox as outbox_module
from crawlfleet.execution.agent.agent import Departure
from crawlfleet.execution.agent.outbox import Outbox
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, SyncDown, SyncUp, SyncVerdict
from tests.unit.agent_kit import Master, Work, assignment, monotonic, node, outcome, recall, virtual


@virtual
async def test_an_idle_node_keeps_one_call_parked(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=9) as one:
        await asyncio.sleep(60)
        calls = one.master.calls
        assert {call.up.wait_ms for call in calls} == {2_000}
        assert [call.up.number for call in calls] == list(range(1, len(calls) + 1))
        assert {round(later.at - call.at, 6) for call, later in pairwise(calls)} == {2.0}
        assert len(one.master.parked) == 1
        assert (calls[-1].up.node, calls[-1].up.session, calls[-1].up.slots) == (7, 101, 9)


@virtual
async def test_what_ends_goes_up_at_once_and_the_parked_call_is_overtaken(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        at = monotonic()
        one.work.end(1)
        call = await one.master.next_call()
        assert monotonic() == at
        assert [o.execution for o in call.up.outcomes] == [1]
        assert call.up.held == []
        assert call.up.started == []
        assert len(one.master.parked) == 2


@virtual
async def test_starts_go_with_the_next_call_and_are_told_until_answered(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=1) as one:
        one.master.give(1)
        await asyncio.sleep(0.01)
        assert [(s.task, s.execution) for s in one.master.last.started] == [(1_001, 1)]
        one.master.is_losing_answers = True
        await asyncio.sleep(3.5)
        assert [s.execution for s in one.master.last.started] == [1]
        assert one.master.last.started[0].started_ms_ago == pytest.approx(3_000, abs=5)
        one.master.is_losing_answers = False
        await asyncio.sleep(3)
        assert one.master.last.started == []
        one.master.give(2)
        await asyncio.sleep(0.1)
        before = len(one.master.calls)
        one.work.end(1)
        await asyncio.sleep(0.1)
        new = [call.up for call in one.master.calls[before:]]
        assert [o.execution for o in new[0].outcomes] == [1]
        assert [s.execution for up in new for s in up.started] == [2]


@virtual
async def test_what_ends_while_outcomes_are_on_their_way_is_gathered(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=100) as one:
        one.master.give(*range(1, 101))
        await asyncio.sleep(0.5)
        one.master.delay_s = 0.05
        before = len(one.master.calls)
        for execution in range(1, 101):
            one.work.end(execution)
            await asyncio.sleep(0.001)
        await asyncio.sleep(1)
        assert len(one.master.ends()) == 100
        carrying = [call.up for call in one.master.calls[before:] if call.up.outcomes]
        assert len(carrying) <= 4
        assert sum(len(up.outcomes) for up in carrying) == 100, "none is sent twice"
        assert len(one.said("outcomes_saved")) <= 10


class Counting(Master):
    """Watches how many calls are under way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = self.most = 0

    async def sync(self, up: SyncUp) -> SyncDown:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await super().sync(up)
        finally:
            self.under_way -= 1


@virtual
async def test_never_more_than_two_calls_are_under_way(tmp_path: Path) -> None:
    master = Counting()
    async with node(tmp_path, master, slots=50, work=Work(run_s=0.3)) as one:
        master.delay_s = 0.2
        for first in range(1, 200, 10):
            master.give(*range(first, first + 10))
            await asyncio.sleep(0.1)
        master.is_hung = True
        await asyncio.sleep(20)
        assert master.most == 2
        master.is_hung = False
        await asyncio.sleep(10)
        assert not one.master.last.held


@virtual
async def test_a_silent_call_is_followed_by_one_to_the_next_master_without_parking(tmp_path: Path) -> None:
    masters = [Master(), Master()]
    async with node(tmp_path, *masters) as one:
        masters[0].give(1)
        await asyncio.sleep(1)
        masters[0].is_hung = masters[0].is_losing_answers = True
        await asyncio.sleep(30)
        assert one.work.alive == {1}, "the lease was kept by the other master"
        assert masters[1].calls[0].up.wait_ms == 0
        assert masters[1].calls[0].at - masters[0].calls[-1].at <= 3.0
        assert masters[1].last.wait_ms == 2_000
        assert len(masters[0].calls) < 5


@virtual
async def test_masters_that_refuse_are_tried_many_times_within_a_lease(tmp_path: Path) -> None:
    masters = [Master(), Master(), Master()]
    async with node(tmp_path, *masters) as one:
        masters[0].give(1)
        await asyncio.sleep(1)
        for master in masters:
            master.is_down = True
        for call in masters[0].parked:
            call.fail()
        await asyncio.sleep(5)
        tried = [data["master"] for data in one.said("call_failed")]
        assert 8 <= len(tried) <= 40
        assert set(tried) == {0, 1, 2}
        masters[1].is_down = False
        await asyncio.sleep(20)
        assert one.work.alive == {1}
        assert len(masters[0].opens) == 1


@virtual
async def test_with_two_hung_masters_the_third_is_reached_before_the_lease_ends(tmp_path: Path) -> None:
    masters = [Master(), Master(), Master()]
    async with node(tmp_path, *masters) as one:
        masters[0].give(1)
        await asyncio.sleep(29.9)
        for master in masters[:2]:
            master.is_hung = master.is_losing_answers = True
        await asyncio.sleep(30)
        assert one.work.alive == {1}


@virtual
async def test_a_slow_network_costs_no_lease(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        one.master.delay_s = 2.4
        await asyncio.sleep(60)
        assert one.work.alive == {1}


@virtual
async def test_every_call_has_an_end(tmp_path: Path) -> None:
    master = Counting()
    async with node(tmp_path, master) as one:
        master.is_hung = master.is_losing_answers = True
        await asyncio.sleep(60)
        assert master.most == 2
        failures = [at for at, name, _ in one.events if name == "call_failed"]
        assert max(later - at for at, later in pairwise(failures)) < 5
        sent = [call.at for call in master.calls]
        assert max(later - at for at, later in pairwise(sent)) <= 3.0


@virtual
async def test_a_call_overtaken_but_never_answered_blocks_nothing(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(1)
        second = await one.master.next_call()
        second.reply(SyncDown(SyncVerdict.OK, acknowledged=[1]))
        await one.master.next_call()
        at = monotonic()
        one.work.end(2)
        call = await one.master.next_call()
        assert [o.execution for o in call.up.outcomes] == [2]
        assert monotonic() - at <= 0.5


@virtual
async def test_unacknowledged_outcomes_are_sent_again(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.is_losing_answers = True
        one.work.end(1)
        await asyncio.sleep(6)
        assert one.master.last.outcomes
        assert one.master.last.held == []
        spans = [call.up.outcomes[0].started_ms_ago for call in one.master.calls if call.up.outcomes]
        assert spans == sorted(span for span in spans if span is not None), "counted anew for each send"
        assert len(set(spans)) > 1
        one.master.is_losing_answers = False
        await asyncio.sleep(3)
        assert one.master.last.outcomes == []
        assert one.master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_the_acknowledgement_of_an_overtaken_call_counts(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.master.calls[-1].reply()
        await one.master.next_call()
        one.work.end(1)
        older = await one.master.next_call()
        one.master.calls[-2].reply(SyncDown(SyncVerdict.STALE_NUMBER))
        one.work.end(2)
        newer = await one.master.next_call()
        assert [o.execution for o in newer.up.outcomes] == [1, 2]
        newer.reply(SyncDown(SyncVerdict.OK, acknowledged=[2]))
        await asyncio.sleep(0.1)
        older.reply(SyncDown(SyncVerdict.STALE_NUMBER, acknowledged=[1]))
        await asyncio.sleep(5)
        assert one.master.last.outcomes == []


@pytest.mark.parametrize("verdict", [SyncVerdict.OK, SyncVerdict.STALE_NUMBER])
@virtual
async def test_a_master_that_does_not_park_is_not_asked_in_a_circle(tmp_path: Path, verdict: SyncVerdict) -> None:
    class Hasty(Master):
        async def sync(self, up: SyncUp) -> SyncDown:
            self.opens.append(self.opens[0])
            return SyncDown(verdict)

    master = Hasty()
    async with node(tmp_path, master):
        await asyncio.sleep(30)
        assert len(master.opens) < 90


@virtual
async def test_a_recall_said_in_every_answer_does_not_make_the_node_chatter(tmp_path: Path) -> None:
    class Nagging(Master):
        count = 0

        async def sync(self, up: SyncUp) -> SyncDown:
            self.count += 1
            if not up.held:
                return SyncDown(SyncVerdict.OK, assignments=[assignment(1)])
            return SyncDown(SyncVerdict.OK, recalls=[recall(1)])

    master = Nagging()
    async with node(tmp_path, master, work=Work(dying_s=10.0)) as one:
        await asyncio.sleep(9)
        assert master.count < 40
        assert one.work.alive == {1}


@virtual
async def test_removed_means_stop_everything_and_go(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=1, work=Work(dying_s=2.0)) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.standing = SyncDown(SyncVerdict.REMOVED)
        one.master.say()
        at = monotonic()
        assert await one.running is Departure.REMOVED
        assert monotonic() - at == pytest.approx(2.0, abs=0.01)
        assert one.ended() == {1: [None], 2: [None]}
        assert one.work.runs == [1]


@virtual
async def test_a_revoked_secret_is_a_removal(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.parked[0].future.set_exception(NotAllowed("revoked"))
        assert await one.running is Departure.REMOVED
        assert one.ended() == {1: [None]}


@virtual
async def test_other_refusals_are_tried_again_and_a_session_may_end_by_an_error(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(0.5)
        one.master.parked[0].future.set_exception(InvalidInput("what is this?"))
        await asyncio.sleep(3)
        assert "what is this?" in str(one.said("call_failed")[0]["error"])
        assert len(one.master.opens) == 1
        one.master.parked[0].future.set_exception(SessionEnded("over"))
        await asyncio.sleep(3)
        assert one.master.session == 102


@virtual
async def test_outcomes_that_do_not_fit_wait_as_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTCOMES_PER_SYNC", 3)
    async with node(tmp_path, Master(), slots=8) as one:
        one.master.give(*range(1, 9))
        await asyncio.sleep(0.5)
        before = len(one.master.calls)
        for execution in range(1, 9):
            one.work.end(execution)
        await asyncio.sleep(1)
        sent = [call.up for call in one.master.calls[before:]]
        assert [[o.execution for o in up.outcomes] for up in sent[:3]] == [[1, 2, 3], [4, 5, 6], [7, 8]]
        assert [sorted(up.held) for up in sent[:3]] == [[4, 5, 6, 7, 8], [7, 8], []]


@virtual
async def test_large_results_are_spread_over_messages(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=100) as one:
        one.master.give(*range(1, 101))
        await asyncio.sleep(0.5)
        before = len(one.master.calls)
        for execution in range(1, 101):
            one.work.end(execution, outcome(execution, result=b'"' + b"x" * 65_000 + b'"'))
        await asyncio.sleep(1)
        assert len(one.master.ends()) == 100
        sizes = [len(msgspec.json.encode(call.up)) for call in one.master.calls[before:]]
        assert max(sizes) < 5 << 20


@virtual
async def test_what_the_disk_does_not_take_is_held_and_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Outbox, _frames: bytes, *, is_synced: bool) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    append = Outbox._append
    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        monkeypatch.setattr(outbox_module.Outbox, "_append", full)
        one.work.end(1)
        await asyncio.sleep(30)
        assert (sorted(one.master.last.held), one.master.last.outcomes) == ([1, 2], [])
        assert one.work.alive == {2}
        assert 5 < len(one.said("outbox_failed")) < 100
        monkeypatch.setattr(outbox_module.Outbox, "_append", append)
        await asyncio.sleep(3)
        assert one.master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_a_bug_in_a_transport_ends_the_agent_instead_of_hiding(tmp_path: Path) -> None:
    class Broken(Master):
        async def sync(self, up: SyncUp) -> SyncDown:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with node(tmp_path, Broken()):
            await asyncio.sleep(1)
    assert caught.group_contains(ZeroDivisionError)


@virtual
async def test_measurements_carry_the_number_that_runs(tmp_path: Path) -> None:
    class Slow:
        async def run(self, assignment: AssignmentBody) -> OutcomeBody:
            await asyncio.sleep(50)
            return outcome(assignment.execution)

    async with node(tmp_path, Master(), executor=Slow(), slots=1, prefetch=1) as one:
        one.master.give(1, 2)
        await asyncio.sleep(3)
        assert one.master.last.measurement.running == 1
