"""Answers may be lost, come twice or come late: each order is done once."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.agent.sync.sync_commands import Tombstones
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import AssignmentBody, NodeConfigBody, OutcomeBody, RecallBody, SyncDown, SyncVerdict
from tests.unit.execution.agent.agent_kit import Master, Work, assignment, node, outcome, recall, virtual


def ok(*assigned: int, **fields: object) -> SyncDown:
    down = SyncDown(SyncVerdict.OK, assignments=[assignment(execution) for execution in assigned])
    return msgspec.structs.replace(down, **fields)


@virtual
async def test_an_assignment_whose_answer_was_lost_runs_once_when_it_comes_again(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.master.calls[-1].fail()
        again = await one.master.next_call()
        assert again.up.held == []
        again.reply(ok(1))
        third = await one.master.next_call()
        assert third.up.held == [1]
        third.reply(ok(1))
        await asyncio.sleep(1)
        assert one.work.runs == [1]


@pytest.mark.parametrize("is_older_first", [True, False])
@virtual
async def test_the_same_assignment_in_two_answers_runs_once(tmp_path: Path, is_older_first: bool) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        newer = await one.master.next_call()
        older = one.master.calls[-2]
        for call in (older, newer) if is_older_first else (newer, older):
            call.reply(ok(1, 2, acknowledged=[9]))
            await asyncio.sleep(0.01)
        assert one.work.runs == [9, 1, 2]


@virtual
async def test_an_execution_that_was_over_before_its_older_answer_came_does_not_run_again(tmp_path: Path) -> None:
    class Quick(Work):
        async def run(self, assignment: AssignmentBody) -> OutcomeBody:
            if assignment.execution == 1:
                self.runs.append(1)
                return outcome(1)
            return await super().run(assignment)

    async with node(tmp_path, Master(), work=Quick()) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        newer = await one.master.next_call()
        older = one.master.calls[-2]
        newer.reply(ok(1, acknowledged=[9]))
        third = await one.master.next_call()
        assert [o.execution for o in third.up.outcomes] == [1]
        third.reply(ok(acknowledged=[1]))
        await asyncio.sleep(0.01)
        assert not older.future.done(), "it is still under way"
        older.reply(ok(1, acknowledged=[9]))
        await asyncio.sleep(3)
        assert one.work.runs == [9, 1]
        assert one.ended() == {9: [End.COMPLETED], 1: [End.COMPLETED]}


@virtual
async def test_delivered_again_while_its_outcome_is_on_its_way_it_does_not_run_again(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(1)
        call = await one.master.next_call()
        call.reply(ok(1))
        call = await one.master.next_call()
        assert [o.execution for o in call.up.outcomes] == [1]
        call.reply(ok(acknowledged=[1]))
        await asyncio.sleep(1)
        assert one.work.runs == [1]
        assert one.ended() == {1: [End.COMPLETED]}


@virtual
async def test_a_master_that_insists_on_what_is_over_is_told_that_it_is(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.work.end(1)
        await asyncio.sleep(3)
        one.master.taken.clear()
        one.master.give(1)
        await asyncio.sleep(0.5)
        assert one.work.runs == [1]
        assert one.master.ends() == {1: [End.STOPPED]}, "else it would stay assigned for ever"


@virtual
async def test_a_recall_of_something_unknown_is_confirmed_and_it_never_starts(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        newer = await one.master.next_call()
        older = one.master.calls[-2]
        newer.reply(ok(acknowledged=[9], recalls=[recall(1)]))
        confirming = await one.master.next_call()
        assert [(o.task, o.execution, o.end) for o in confirming.up.outcomes] == [(1_001, 1, End.STOPPED)]
        older.reply(ok(1))
        await asyncio.sleep(0.01)
        confirming.reply(ok(acknowledged=[1]))
        await asyncio.sleep(1)
        assert one.work.runs == [9]
        assert one.ended()[1] == [End.STOPPED]


@virtual
async def test_assigned_and_recalled_in_one_answer_it_does_not_start(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.say(assignments=[assignment(1)], recalls=[recall(1)])
        await asyncio.sleep(1)
        assert one.work.runs == []
        assert one.master.ends() == {1: [End.STOPPED]}


@virtual
async def test_a_recall_of_what_waits_for_a_slot_is_confirmed_at_once(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=1) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        one.master.say(recalls=[RecallBody(1_002, 2, 99)])
        await asyncio.sleep(0.1)
        assert one.master.ends() == {2: [End.STOPPED]}
        one.work.end(1)
        await asyncio.sleep(1)
        assert one.work.runs == [1]


@virtual
async def test_a_stop_order_is_obeyed_in_silence(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2, prefetch=1, work=Work(dying_s=3.0)) as one:
        one.master.give(1, 2, 3)
        await asyncio.sleep(0.5)
        one.master.say(stops=[1, 3])
        await asyncio.sleep(0.1)
        assert 1 in one.work.cancelled_at
        one.work.end(2)
        await asyncio.sleep(0.1)
        assert one.master.last.held == []
        assert one.master.last.slots == 1, "the stopped one still fills a slot"
        await asyncio.sleep(3)
        assert one.master.last.slots == 2
        assert one.master.ends() == {2: [End.COMPLETED]}
        assert one.ended() == {3: [None], 2: [End.COMPLETED], 1: [None]}


@virtual
async def test_after_a_stop_order_an_older_answer_does_not_start_it(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        newer = await one.master.next_call()
        newer.reply(ok(acknowledged=[9], stops=[1]))
        await asyncio.sleep(0.01)
        one.master.calls[-3].reply(ok(1))
        await asyncio.sleep(1)
        assert one.work.runs == [9]


@virtual
async def test_a_stop_order_takes_a_saved_outcome_along(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(1)
        (await one.master.next_call()).reply(ok(stops=[1]))
        call = await one.master.next_call()
        assert (call.up.outcomes, call.up.held) == ([], [])


@virtual
async def test_what_does_not_fit_is_handed_back(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2) as one:
        one.master.give(1, 2, 3, 4)
        await asyncio.sleep(0.5)
        assert one.work.alive == {1, 2}
        assert one.master.ends() == {3: [End.RETURNED], 4: [End.RETURNED]}


@virtual
async def test_slots_follow_the_master_and_come_back(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2, prefetch=2) as one:
        one.master.standing = msgspec.structs.replace(one.master.standing, slots=1)
        one.master.give(1, 2)
        await asyncio.sleep(0.5)
        assert one.work.alive == {1}
        assert one.master.last.slots == 1
        one.master.standing = msgspec.structs.replace(one.master.standing, slots=None)
        await asyncio.sleep(2.5)
        assert one.work.alive == {1, 2}
        assert one.master.last.slots == 2
        one.master.standing = msgspec.structs.replace(one.master.standing, slots=0)
        await asyncio.sleep(2.5)
        assert one.work.alive == {1, 2}, "nothing is stopped"
        one.work.end(1)
        one.work.end(2)
        one.master.give(3)
        await asyncio.sleep(0.5)
        assert one.work.alive == set()


@virtual
async def test_settings_of_an_older_answer_do_not_undo_those_of_a_newer_one(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=4) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        newer = await one.master.next_call()
        older = one.master.calls[-2]
        newer.reply(ok(acknowledged=[9], slots=2))
        await asyncio.sleep(0.01)
        older.reply(ok(slots=3))
        await asyncio.sleep(3.1)
        assert one.master.last.slots == 2


def test_tombstones_are_bounded_and_the_oldest_goes_first() -> None:
    tombstones = Tombstones(limit=3)
    for execution in range(1, 6):
        tombstones.add(execution, number=execution)
    tombstones.add(3, number=9)
    tombstones.add(6, number=9)
    assert [execution for execution in range(1, 7) if execution in tombstones] == [3, 5, 6]
    assert tombstones.ended_before_sync(10, 3)
    assert not tombstones.ended_before_sync(9, 3)


@virtual
async def test_configuration_is_taken_once_and_an_older_one_never(tmp_path: Path) -> None:
    told: list[list[str]] = []
    async with node(tmp_path, Master(), allow_hosts=lambda hosts: told.append(list(hosts))) as one:
        assert one.master.last.config_version == 0
        for config in (NodeConfigBody(3, ["a"], 600), NodeConfigBody(3, ["b"], 900), NodeConfigBody(2, ["c"], 900)):
            one.master.standing = ok(config=config)
            one.master.give()
            await asyncio.sleep(0.5)
            assert one.master.last.config_version == 3
        assert told == [["a"]]
        assert one.master.last.wait_ms == 400, "two thirds of the interval"
        one.master.standing = ok(config=NodeConfigBody(4, ["a"], 60_000))
        await asyncio.sleep(2)
        assert (one.master.last.config_version, one.master.last.wait_ms) == (4, 2_000)
        assert told == [["a"]]
        one.master.standing = ok(config=NodeConfigBody(5))
        await asyncio.sleep(3)
        assert told == [["a"], []]


@virtual
async def test_other_defaults_of_a_master_are_news_at_the_same_version(tmp_path: Path) -> None:
    told: list[list[str]] = []
    async with node(tmp_path, Master(), allow_hosts=lambda hosts: told.append(list(hosts))) as one:
        for hosts, mark in ((["a"], 7), (["a"], 7), ([], 0)):
            one.master.standing = ok(config=NodeConfigBody(0, hosts, 600, mark))
            one.master.give()
            await asyncio.sleep(0.5)
            assert (one.master.last.config_version, one.master.last.config_mark) == (0, mark)
        assert told == [["a"], []]


@virtual
async def test_configuration_outlives_a_session(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.standing = ok(config=NodeConfigBody(3, ["a"], 600))
        one.master.give()
        await asyncio.sleep(0.5)
        one.master.standing = SyncDown(SyncVerdict.SESSION_ENDED)
        await asyncio.sleep(1)
        one.master.standing = ok()
        await asyncio.sleep(3)
        assert len(one.master.opens) > 1
        assert (one.master.last.config_version, one.master.last.wait_ms) == (3, 400)
