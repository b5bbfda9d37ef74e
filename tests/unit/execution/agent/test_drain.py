"""A draining node takes nothing, finishes what it can, hands back the rest; a leaving one says when it is empty."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.agent.agent import Departure
from crawlfleet.execution.agent.work.outbox import Outbox
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import SyncDown, SyncUp, SyncVerdict
from tests.unit.execution.agent.agent_kit import Master, Work, monotonic, node, recall, virtual


def ordered(master: Master, drain_ms: int | None) -> None:
    master.standing = msgspec.structs.replace(master.standing, drain_ms=drain_ms)
    master.say()


@virtual
async def test_an_ordered_drain_waits_hands_back_and_ends(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2, prefetch=1) as one:
        one.master.give(1, 2, 3)
        await asyncio.sleep(0.5)
        ordered(one.master, 10_000)
        await asyncio.sleep(0.1)
        assert one.master.ends() == {3: [End.RETURNED]}, "what waits is handed back at once"
        assert one.master.last.is_draining
        one.work.end(1)
        await asyncio.sleep(0.1)
        assert one.master.ends()[1] == [End.COMPLETED]
        one.master.give(4)
        await asyncio.sleep(0.1)
        assert one.master.ends()[4] == [End.RETURNED], "it raced with the order"
        ordered(one.master, 1_000)
        await asyncio.sleep(1.2)
        assert one.master.ends()[2] == [End.RETURNED]
        ordered(one.master, 0)
        await asyncio.sleep(30)
        assert not one.running.done()
        assert one.master.last.held == []
        ordered(one.master, None)
        await asyncio.sleep(0.1)
        assert not one.master.calls[-1].up.is_draining
        one.master.give(5)
        await asyncio.sleep(0.1)
        assert one.work.alive == {5}
        assert [name for _, name, _ in one.events if name.startswith("drain")] == ["drain_began", "drain_ended"]


@virtual
async def test_a_drain_that_is_said_in_each_answer_does_not_make_the_node_chatter(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        ordered(one.master, 5_000)
        one.master.standing = msgspec.structs.replace(one.master.standing, drain_ms=0)
        await asyncio.sleep(20)
        assert len(one.master.calls) < 15


@virtual
async def test_a_master_that_does_not_park_a_leaving_node_delays_no_outcome(tmp_path: Path) -> None:
    class Restless(Master):
        """Sees in each answer that the node drains although it was not told to."""

        async def sync(self, up: SyncUp) -> SyncDown:
            return await super().sync(msgspec.structs.replace(up, wait_ms=0))

    async with node(tmp_path, Restless()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.agent.request_leave(60)
        await asyncio.sleep(20.1)
        assert len(one.master.calls) < 60
        at = monotonic()
        one.work.end(1)
        assert await one.running is Departure.LEFT
        assert monotonic() - at < 0.01


@virtual
async def test_an_overtaken_empty_answer_does_not_end_a_drain(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        ordered(one.master, 60_000)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(1)
        second = await one.master.next_call()
        one.master.calls[-2].reply(SyncDown(SyncVerdict.OK))
        await asyncio.sleep(0.01)
        assert one.said("drain_ended") == []
        second.reply(SyncDown(SyncVerdict.OK, acknowledged=[1], drain_ms=59_000))
        await asyncio.sleep(0.01)
        assert one.said("drain_ended") == []


@virtual
async def test_leaving_lets_work_end_and_says_goodbye_last(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.agent.request_leave(30)
        await asyncio.sleep(0.1)
        assert one.master.last.is_draining
        assert not one.master.last.is_leaving
        one.work.end(1)
        await asyncio.sleep(1)
        one.work.end(2)
        at = monotonic()
        assert await one.running is Departure.LEFT
        assert monotonic() - at < 0.2
        assert one.master.ends() == {1: [End.COMPLETED], 2: [End.COMPLETED]}
        goodbye = one.master.last
        assert goodbye.is_leaving
        assert (goodbye.held, goodbye.outcomes) == ([], [])
        assert [call.up.is_leaving for call in one.master.calls].count(True) == 1
        assert one.said("left") == [{"reason": "left"}]


@virtual
async def test_leaving_hands_back_at_the_deadline_and_waits_for_the_process_to_be_gone(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), work=Work(dying_s=3.0)) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        at = monotonic()
        await one.agent.drain(deadline_s=5)
        assert monotonic() - at == pytest.approx(8, abs=0.3)
        assert one.master.ends() == {1: [End.RETURNED]}
        assert one.master.last.is_leaving


@virtual
async def test_a_recall_during_the_drain_is_confirmed_as_stopped(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), work=Work(dying_s=3.0)) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.agent.request_leave(0)
        await asyncio.sleep(0.5)
        one.master.say(recalls=[recall(1)])
        await one.running
        assert one.master.ends() == {1: [End.STOPPED]}


@virtual
async def test_an_idle_node_leaves_at_once(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(1)
        at = monotonic()
        await one.agent.drain(30)
        assert monotonic() - at < 0.1
        assert one.master.last.is_leaving


@virtual
async def test_a_goodbye_whose_answer_was_lost_counts_when_the_session_is_over(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(1)
        one.master.is_losing_answers = True
        one.agent.request_leave(5)
        await asyncio.sleep(1)
        one.master.is_losing_answers = False
        one.master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        assert await one.running is Departure.LEFT
        assert len(one.master.opens) == 1


@virtual
async def test_a_node_that_reaches_no_master_leaves_its_outcomes_on_disk(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), leave_patience_s=8) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.is_hung = True
        one.work.end(1)
        one.agent.request_leave(1)
        at = monotonic()
        assert await one.running is Departure.GAVE_UP
        assert monotonic() - at == pytest.approx(9, abs=0.1)
    outbox = Outbox(tmp_path, is_synced=False)
    assert [(ended.outcome.execution, ended.outcome.end) for ended in outbox.pending_outcomes()] == [
        (1, End.COMPLETED),
        (2, End.RETURNED),
    ]
    outbox.close()


@virtual
@pytest.mark.parametrize("busy_s", [0, 3])
async def test_a_node_that_reaches_no_master_does_not_wait_for_work_that_is_over(tmp_path: Path, busy_s: int) -> None:
    """The time to drain is for what runs: after it only the goodbye is tried, and not for long."""
    async with node(tmp_path, Master(), leave_patience_s=8) as one:
        if busy_s:
            one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.is_hung = True
        one.agent.request_leave(60)
        at = monotonic()
        await asyncio.sleep(busy_s)
        if busy_s:
            one.work.end(1)
        assert await one.running is Departure.GAVE_UP
        assert monotonic() - at == pytest.approx(busy_s + 8, abs=0.1)


@virtual
async def test_what_is_gone_only_after_giving_up_is_on_disk_too(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), leave_patience_s=2, work=Work(dying_s=30.0)) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.agent.request_leave(1)
        assert await one.running is Departure.GAVE_UP
        assert one.work.alive == set()
    outbox = Outbox(tmp_path, is_synced=False)
    assert [(ended.outcome.execution, ended.outcome.end) for ended in outbox.pending_outcomes()] == [(1, End.STOPPED)]
    outbox.close()


@virtual
async def test_leaving_without_a_session_needs_no_master(tmp_path: Path) -> None:
    master = Master()
    master.is_down = True
    async with node(tmp_path, master) as one:
        await asyncio.sleep(20)
        at = monotonic()
        one.agent.request_leave(30)
        assert await one.running is Departure.LEFT
        assert monotonic() == at


@virtual
async def test_leaving_after_the_session_was_lost_still_hands_over_what_is_saved(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.is_hung = True
        one.work.end(1)
        one.agent.request_leave(5)
        await asyncio.sleep(3)
        one.master.is_manual = True
        one.master.is_hung = False
        call = await one.master.next_call()
        call.reply(SyncDown(SyncVerdict.SESSION_ENDED))
        one.master.is_manual = False
        assert await one.running is Departure.LEFT
        assert [o.execution for o in one.master.opens[-1].outcomes] == [1]
        assert one.master.last.is_leaving


@virtual
async def test_a_node_that_leaves_says_so_in_every_sync_and_a_drained_one_does_not(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        ordered(one.master, 60_000)
        await asyncio.sleep(0.1)
        assert (one.master.last.is_draining, one.master.last.is_departing) == (True, False)
        one.agent.request_leave(60)
        await asyncio.sleep(0.01)
        assert one.master.last.is_departing, "at once"
        await asyncio.sleep(10)
        assert one.master.last.is_departing
        one.work.end(1)
        assert await one.running is Departure.LEFT


@virtual
async def test_a_session_that_is_opened_only_to_hand_over_says_so(tmp_path: Path) -> None:
    master = Master()
    async with node(tmp_path, master) as one:
        assert not master.opens[0].is_departing
        master.give(1)
        await asyncio.sleep(0.5)
        master.is_down = True
        one.agent.request_leave(60)
        one.work.end(1)
        await asyncio.sleep(1)
        master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        master.is_down = False
        await one.running
        assert all(up.is_departing for up in master.opens[1:])
