"""The sync loop: one call parked, news at once, never more than two under way, and many tries within a lease."""

import asyncio
import errno
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.agent.work import outbox as outbox_module
from crawlfleet.execution.agent.work.outbox import Outbox
from crawlfleet.execution.agent.work.runner import START_REPORT_S
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, SyncDown, SyncUp, SyncVerdict
from tests.unit.execution.agent.agent_kit import Master, Work, assignment, monotonic, node, outcome, recall, virtual


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
async def test_starts_are_told_once_work_has_run_for_a_moment_and_until_answered(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=1) as one:
        one.master.give(1)
        await asyncio.sleep(START_REPORT_S / 2)
        assert one.master.last.started == []
        await asyncio.sleep(START_REPORT_S)
        assert [(s.task, s.execution) for s in one.master.last.started] == [(1_001, 1)]
        one.master.is_losing_answers = True
        await asyncio.sleep(3.5)
        assert [s.execution for s in one.master.last.started] == [1]
        one.master.is_losing_answers = False
        await asyncio.sleep(3)
        assert one.master.last.started == []
        one.master.give(2)
        await asyncio.sleep(0.1)
        before = len(one.master.calls)
        one.work.end(1)
        await asyncio.sleep(2 * START_REPORT_S)
        new = [call.up for call in one.master.calls[before:]]
        assert [o.execution for o in new[0].outcomes] == [1]
        assert [s.execution for up in new for s in up.started] == [2]


@virtual
async def test_the_start_of_work_that_is_soon_over_is_not_told(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1) as one:
        one.master.give(1)
        await asyncio.sleep(START_REPORT_S / 2)
        one.work.end(1)
        await asyncio.sleep(2 * START_REPORT_S)
        assert [s for call in one.master.calls for s in call.up.started] == []
        assert [o.execution for call in one.master.calls for o in call.up.outcomes] == [1]


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


@virtual
async def test_the_next_call_goes_at_once_when_all_that_came_is_over(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), work=Work(run_s=0.001)) as one:
        one.master.give(1)
        await one.master.next_call()
        at = monotonic()
        assert (await one.master.next_call()).up.outcomes == []
        assert monotonic() == at, "nothing runs that could end soon and go along"


@virtual
async def test_an_outcome_that_a_stop_order_dropped_before_its_acknowledgement_costs_no_pause(tmp_path: Path) -> None:
    """The start goes up, then the outcome. The answer to the first call is made when the outcome is stored: the node
    says it holds an execution that is over, so it is told to stop it."""
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(START_REPORT_S / 2)
        one.master.is_manual = True
        start = await one.master.next_call()
        assert [s.execution for s in start.up.started] == [1]
        one.work.end(1)
        end = await one.master.next_call()
        assert [o.execution for o in end.up.outcomes] == [1]
        start.reply(SyncDown(SyncVerdict.OK, stops=[1]))
        await asyncio.sleep(0.001)
        end.reply(SyncDown(SyncVerdict.OK, acknowledged=[1]))
        at = monotonic()
        await one.master.next_call()
        assert monotonic() == at


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
async def test_what_the_disk_does_not_take_still_goes_to_a_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Outbox, _frames: bytes, *, is_synced: bool) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        monkeypatch.setattr(outbox_module.Outbox, "_append", full)
        one.master.is_losing_answers = True
        one.work.end(1)
        await asyncio.sleep(3)
        assert one.said("outbox_failed")
        one.master.is_losing_answers = False
        await asyncio.sleep(1)
        assert one.master.ends()[1][-1] is End.COMPLETED
        assert one.master.last.held == [2]


@virtual
async def test_what_is_acknowledged_at_once_never_goes_to_disk(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.work.end(1)
        await asyncio.sleep(1)
        assert one.master.ends() == {1: [End.COMPLETED]}
        assert not one.said("outcomes_saved")
        one.master.is_losing_answers = True
        one.work.end(2)
        await asyncio.sleep(1)
        assert one.said("outcomes_saved")


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
