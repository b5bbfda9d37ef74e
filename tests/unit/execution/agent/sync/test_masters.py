"""Masters that hang, refuse or say that it is over: a node that can reach any of them keeps its lease."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from crawlfleet.errors import InvalidInput, NotAllowed, NotFound, SessionEnded
from crawlfleet.execution.agent.agent import Departure
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import SyncDown, SyncUp, SyncVerdict, mark_masters
from tests.unit.execution.agent.agent_kit import Master, Work, monotonic, node, virtual


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
async def test_two_silent_calls_do_not_keep_the_next_master_from_being_called(tmp_path: Path) -> None:
    masters = [Master(), Master()]
    async with node(tmp_path, *masters, slots=2) as one:
        masters[0].give(1, 2)
        await asyncio.sleep(1)
        await masters[0].next_call()
        masters[0].is_hung = masters[0].is_losing_answers = True
        one.work.end(2)
        frozen_at = monotonic()
        first = await masters[1].next_call()
        assert len(masters[0].calls) >= 2 and masters[0].last.number == first.up.number - 1
        assert [outcome.execution for outcome in first.up.outcomes] == [2]
        assert monotonic() - frozen_at <= 3.5, "half of the lease is left for the next master's answer"
        await asyncio.sleep(30)
        assert one.work.alive == {1}, "the lease was kept by the other master"


@virtual
async def test_an_outcome_whose_call_failed_goes_again_while_an_older_call_is_parked(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.1)
        one.master.is_manual = True
        one.work.end(1)
        (await one.master.next_call()).fail()
        at = monotonic()
        again = await one.master.next_call()
        assert [o.execution for o in again.up.outcomes] == [1]
        assert monotonic() - at < 0.1


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
        assert set(tried) == {"master-0", "master-1", "master-2"}
        masters[1].is_down = False
        await asyncio.sleep(20)
        assert one.work.alive == {1}
        assert len(masters[0].opens) == 1


A, B, C = "http://a", "http://b", "http://c"


@virtual
async def test_a_node_survives_the_only_master_it_was_given_by_one_that_it_learned_of(tmp_path: Path) -> None:
    reachable = {A: Master(), B: Master()}
    async with node(tmp_path, reachable[A], addresses=[A], reachable=reachable) as one:
        reachable[A].standing = SyncDown(SyncVerdict.OK, masters=[A, B])
        reachable[A].give(1)
        await asyncio.sleep(5)
        assert reachable[A].last.masters_mark == mark_masters([A, B])
        reachable[A].is_down = True
        for call in reachable[A].parked:
            call.fail()
        await asyncio.sleep(30)
        assert one.work.alive == {1}, "the lease was kept by the master that the first one reported"
        assert not reachable[B].opens, "in the same session"


@virtual
async def test_a_node_opens_its_next_session_at_a_master_that_the_first_one_reported(tmp_path: Path) -> None:
    reachable = {A: Master(), B: Master()}
    reachable[A].masters = [B]
    async with node(tmp_path, reachable[A], addresses=[A], reachable=reachable) as one:
        reachable[A].is_down = True
        for call in reachable[A].parked:
            call.reply(SyncDown(SyncVerdict.SESSION_ENDED))
        await asyncio.sleep(10)
        assert len(reachable[B].opens) == 1
        assert len(one.said("session_opened")) == 2


@virtual
async def test_a_master_that_is_reported_no_longer_is_forgotten_and_a_configured_one_is_not(tmp_path: Path) -> None:
    reachable = {A: Master(), B: Master(), C: Master()}
    async with node(tmp_path, reachable[A], addresses=[A], reachable=reachable) as one:
        reachable[A].standing = SyncDown(SyncVerdict.OK, masters=[A, B])
        await asyncio.sleep(5)
        reachable[A].is_down = True
        for call in reachable[A].parked:
            call.fail()
        await asyncio.sleep(5)
        assert reachable[B].calls
        # The next one knows only itself, and the first is configured.
        reachable[B].standing = SyncDown(SyncVerdict.OK, masters=[C])
        await asyncio.sleep(5)
        asked = len(reachable[B].calls)
        await asyncio.sleep(20)
        assert len(reachable[B].calls) == asked, "it is not among the reported ones any more"
        assert reachable[C].calls
        reachable[A].is_down, reachable[C].is_down = False, True
        for call in reachable[C].parked:
            call.fail()
        await asyncio.sleep(10)
        assert reachable[A].parked
        assert len(one.said("session_opened")) == 1


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


@pytest.mark.parametrize("count", [1, 2, 3])
@virtual
async def test_a_slow_network_costs_no_lease(tmp_path: Path, count: int) -> None:
    masters = [Master() for _ in range(count)]
    async with node(tmp_path, *masters, slots=100) as one:
        one.master.give(*range(1, 100))
        await asyncio.sleep(1)
        for master in masters:
            master.delay_s = 2.4
        for execution in range(2, 100):
            await asyncio.sleep(0.6)
            one.work.end(execution)
        await asyncio.sleep(20)
        assert one.work.alive == {1}
        assert not one.said("lease_lapsed")


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
async def test_a_secret_that_is_revoked_for_a_while_is_a_removal(tmp_path: Path) -> None:
    masters = Master(), Master()
    async with node(tmp_path, *masters) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        at = monotonic()
        for master in masters:
            master.rejection = NotAllowed("revoked")
        one.master.parked[0].fail()
        assert await one.running is Departure.REMOVED
        assert 30 <= monotonic() - at < 60
        assert one.ended() == {1: [End.STOPPED]}, "its lease ended before that"
        assert sum(len(master.calls) for master in masters) < 25, "masters count wrong secrets"
        assert masters[1].calls, "the other master was asked too"


@pytest.mark.parametrize("rejection", [NotAllowed("who is that?"), NotFound("no such node")])
@virtual
async def test_one_rejection_or_a_moment_of_them_stops_nothing(tmp_path: Path, rejection: Exception) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        for span_s in (0.01, 1.0, 3.0):
            one.master.rejection = rejection
            one.master.parked[0].fail()
            await asyncio.sleep(span_s)
            one.master.rejection = None
            await asyncio.sleep(5)
        assert one.work.alive == {1}
        assert len(one.master.opens) == 1
        one.work.end(1)
        await asyncio.sleep(1)
        assert one.master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_a_node_that_one_master_rejects_stays_with_the_other(tmp_path: Path) -> None:
    masters = Master(), Master()
    masters[0].rejection = NotAllowed("who is that?")
    masters[0].open_error = NotFound("no such node")
    async with node(tmp_path, *masters) as one:
        await asyncio.sleep(120)
        assert not one.running.done()
        assert len(one.said("session_opened")) == 1
        assert masters[1].parked


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
async def test_a_bug_in_a_transport_ends_the_agent_instead_of_hiding(tmp_path: Path) -> None:
    class Broken(Master):
        async def sync(self, up: SyncUp) -> SyncDown:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        async with node(tmp_path, Broken()):
            await asyncio.sleep(1)
    assert caught.group_contains(ZeroDivisionError)
