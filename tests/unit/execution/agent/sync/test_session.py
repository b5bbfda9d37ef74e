"""Sessions: what is saved goes up first, masters are tried in turn, and a removed node goes."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from crawlfleet.errors import ConfigError, NotAllowed, NotFound, Unavailable
from crawlfleet.execution.agent.agent import Departure
from crawlfleet.execution.agent.work.outbox import EndedExecution, Outbox
from crawlfleet.execution.agent.work.outcomes import SAVE_S
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import SyncDown, SyncVerdict
from tests.unit.execution.agent.agent_kit import Master, Work, node, outcome, virtual


@virtual
async def test_outcomes_saved_by_an_earlier_process_go_up_with_the_session(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(1, result=b"[1]")), EndedExecution(outcome(2, End.FAILED))])
    outbox.close()
    async with node(tmp_path, Master()) as one:
        (up,) = one.master.opens
        assert (up.node, up.secret, up.slots, up.task_types) == (7, "secret", 4, ["web_crawl"])
        assert [(o.execution, o.end, o.started_ms_ago) for o in up.outcomes] == [(1, 1, None), (2, 2, None)]
        assert one.said("session_opened") == [{"session": 101, "lease_s": 9.0, "reported": [1, 2]}]
        await asyncio.sleep(1)
        assert one.master.last.outcomes == []
    outbox = Outbox(tmp_path, is_synced=False)
    assert outbox.pending_outcomes() == []
    outbox.close()


@virtual
async def test_a_restarted_agent_reports_what_the_killed_one_had_saved(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.is_hung = True
        one.work.end(1)
        await asyncio.sleep(SAVE_S + 0.1)
        assert one.said("outcomes_saved") == [{"executions": [1]}]
    async with node(tmp_path, Master()) as two:
        assert [o.execution for o in two.master.opens[0].outcomes] == [1]
        assert two.master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_a_session_is_opened_after_the_newest_there_is(tmp_path: Path) -> None:
    master = Master()
    master.is_minding_order = True
    async with node(tmp_path, master) as one:
        await asyncio.sleep(0.1)
        assert [up.after for up in master.opens] == [0, 100]
        assert [event["session"] for event in one.said("session_opened")] == [101]
        master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        await asyncio.sleep(0.1)
        master.say()
        master.standing = SyncDown(SyncVerdict.OK)
        await asyncio.sleep(5)
        assert [up.after for up in master.opens] == [0, 100, 101]


@virtual
async def test_a_lost_answer_opens_another_session_with_the_same_outcomes(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(1))])
    outbox.close()
    master = Master()
    master.open_error = Unavailable("the answer was lost")
    async with node(tmp_path, master) as one:
        await asyncio.sleep(0.01)
        master.open_error = None
        await asyncio.sleep(1)
        assert [[o.execution for o in up.outcomes] for up in master.opens] == [[1], [1]]
        assert one.said("session_opened")


@virtual
async def test_masters_are_tried_in_turn_with_growing_pauses(tmp_path: Path) -> None:
    masters = [Master(), Master(), Master()]
    for master in masters:
        master.is_down = True
    tried: list[float] = []
    async with node(tmp_path, *masters) as one:
        await asyncio.sleep(30)
        tried = [at for at, name, _ in one.events if name == "call_failed"]
        places = [data["master"] for data in one.said("call_failed")]
        assert places[:4] == ["master-0", "master-1", "master-2", "master-0"]
        pauses = [later - at for at, later in pairwise(tried)]
        assert pauses[0] < 0.16
        assert max(pauses) <= 4.5
        assert 10 <= len(tried) <= 30
        masters[2].is_down = False
        await asyncio.sleep(15)
        assert one.said("session_opened")
        assert masters[2].calls


@virtual
async def test_a_master_that_hangs_at_opening_is_left(tmp_path: Path) -> None:
    masters = [Master(), Master()]
    masters[0].is_hung = True
    async with node(tmp_path, *masters) as one:
        await asyncio.sleep(11)
        assert one.said("session_opened")
        assert masters[1].opens


@pytest.mark.parametrize("error", [NotAllowed("the secret is revoked"), NotFound("no such node")])
@virtual
async def test_a_removed_node_goes_when_it_opens(tmp_path: Path, error: Exception) -> None:
    master = Master()
    master.open_error = error
    async with node(tmp_path, master) as one:
        await asyncio.sleep(25)
        assert not one.running.done(), "not at the first word"
        assert await one.running is Departure.REMOVED
        assert one.said("left") == [{"reason": "removed"}]
        assert 5 <= len(master.opens) < 15


@virtual
async def test_a_new_session_holds_nothing_of_the_old_one(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=3, prefetch=1, work=Work(dying_s=20.0)) as one:
        one.master.give(1, 2, 3, 4)
        await asyncio.sleep(0.5)
        one.work.end(1)
        one.master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        await asyncio.sleep(0.5)
        assert set(one.work.cancelled_at) == {2, 3, 4}
        one.master.standing = SyncDown(SyncVerdict.OK)
        await asyncio.sleep(3)
        assert one.said("session_ended") == [{"session": 101}]
        assert one.master.session == 102
        assert (one.master.last.session, one.master.last.held) == (102, [])
        assert one.master.last.slots == 0, "their processes are not gone"
        one.master.give(5, 6)
        await asyncio.sleep(0.5)
        assert one.master.ends()[6] == [End.RETURNED]
        assert one.master.last.held == [5], "it waits for one of them to be gone"
        await asyncio.sleep(20)
        assert one.master.last.slots == 3
        assert {execution: ends for execution, ends in one.ended().items() if execution in (2, 3, 4)} == {
            2: [None],
            3: [None],
            4: [None],
        }
        assert set(one.master.ends()) == {1, 6}, "nothing of the old session is reported as done"
        assert one.work.alive == {5}


@virtual
async def test_sessions_that_end_at_once_are_not_opened_in_a_circle(tmp_path: Path) -> None:
    master = Master()
    master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
    master.say()
    async with node(tmp_path, master) as one:
        for _ in range(400):
            master.say()
            await asyncio.sleep(0.1)
        assert 20 <= len(master.opens) <= 80
        assert not one.running.done()


@virtual
async def test_numbers_start_again_with_each_session(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(7)
        assert [call.up.number for call in one.master.calls] == [1, 2, 3, 4]
        one.master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        await asyncio.sleep(2)
        one.master.standing = SyncDown(SyncVerdict.OK)
        await asyncio.sleep(7)
        numbers = [call.up.number for call in one.master.calls if call.up.session == one.master.session]
        assert numbers == list(range(1, len(numbers) + 1))
        assert one.master.session == 102


def test_an_agent_without_masters_is_a_mistake_in_the_settings(tmp_path: Path) -> None:
    @virtual
    async def begun() -> None:
        async with node(tmp_path, *[]):
            pass

    with pytest.raises(ConfigError, match="masters"):
        begun()
