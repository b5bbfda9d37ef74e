"""Every execution ends in one way, and only when nothing of it runs any more."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.agent.work.outbox import Outbox
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass, Recall
from crawlfleet.ports.executor import Stopped
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, SyncDown, SyncVerdict
from tests.unit.execution.agent.agent_kit import Master, Work, assignment, monotonic, node, outcome, recall, virtual


@virtual
async def test_work_is_run_reported_and_forgotten(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1, 2)
        await asyncio.sleep(1.5)
        assert one.work.alive == {1, 2}
        assert sorted(one.master.last.held) == [1, 2]
        one.work.end(1)
        await asyncio.sleep(0.1)
        assert one.master.ends() == {1: [End.COMPLETED]}
        assert one.master.taken[0].started_ms_ago == pytest.approx(1_500, abs=15)
        assert one.master.last.held == [2]
        assert one.master.last.outcomes == []
        assert bytes(one.master.taken[0].result) == b'{"pages":1}'


@virtual
async def test_past_its_timeout_an_execution_is_stopped(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), work=Work(dying_s=3.0)) as one:
        one.master.give(1, timeout_s=60)
        await asyncio.sleep(62.9)
        assert one.work.cancelled_at[1] == pytest.approx(1_060, abs=0.1)
        assert one.master.ends() == {}, "it is not gone yet"
        assert one.master.last.held == [1]
        await asyncio.sleep(0.3)
        assert one.master.ends() == {1: [End.TIMED_OUT]}
        assert one.master.taken[0].error == ErrorClass.TIMEOUT
        assert "60 s" in one.master.taken[0].message


class Tells:
    """Says how far it was when it is stopped."""

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            raise Stopped(msgspec.Raw(b'{"pages":3,"log_chunks":1}')) from None
        return outcome(assignment.execution)


@virtual
async def test_one_that_is_stopped_tells_its_metrics(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), executor=Tells()) as one:
        one.master.give(1, timeout_s=10)
        one.master.give(2)
        await asyncio.sleep(1)
        one.master.standing = SyncDown(SyncVerdict.OK, recalls=[recall(2)])
        await asyncio.sleep(12)
        assert one.master.ends() == {1: [End.TIMED_OUT], 2: [End.STOPPED]}
        assert {bytes(told.metrics) for told in one.master.taken} == {b'{"pages":3,"log_chunks":1}'}


@virtual
async def test_metrics_of_one_that_is_stopped_are_brought_within_bounds(tmp_path: Path) -> None:
    class Raves:
        async def run(self, _assignment: AssignmentBody) -> OutcomeBody:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                raise Stopped(msgspec.Raw(b"{no json")) from None
            raise AssertionError

    async with node(tmp_path, Master(), executor=Raves()) as one:
        one.master.give(1, timeout_s=10)
        await asyncio.sleep(12)
        assert one.master.ends() == {1: [End.TIMED_OUT]}
        assert bytes(one.master.taken[0].metrics) == b"null"


@virtual
async def test_what_completes_after_its_timeout_has_timed_out(tmp_path: Path) -> None:
    class Deaf:
        async def run(self, assignment: AssignmentBody) -> OutcomeBody:
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                await asyncio.sleep(5)
            return outcome(assignment.execution)

    async with node(tmp_path, Master(), executor=Deaf()) as one:
        one.master.give(1, timeout_s=10)
        await asyncio.sleep(16)
        assert one.master.ends() == {1: [End.TIMED_OUT]}


@virtual
async def test_an_executor_that_raises_is_a_failure_with_a_short_message(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.1)
        one.work.crash(1, RuntimeError("x" * 10_000))
        await asyncio.sleep(0.1)
        taken = one.master.taken[0]
        assert (taken.end, taken.error) == (End.FAILED, ErrorClass.INTERNAL)
        assert taken.message.startswith("RuntimeError: xxx")
        assert len(taken.message) == limits.MESSAGE_CHARS


@virtual
async def test_an_executor_that_cancels_itself_is_a_failure(tmp_path: Path) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.1)
        one.work._ends[1].cancel()
        await asyncio.sleep(0.1)
        assert one.master.ends() == {1: [End.FAILED]}
        assert not one.running.done()


@virtual
async def test_a_recalled_execution_keeps_its_slot_until_it_is_gone(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1, prefetch=1, work=Work(dying_s=5.0)) as one:
        one.master.give(1, 2)
        await asyncio.sleep(0.1)
        assert one.work.runs == [1]
        one.master.say(recalls=[recall(1, Recall.PREEMPT)])
        recalled_at = monotonic()
        await asyncio.sleep(4.8)
        assert one.master.ends() == {}
        assert one.master.last.held == [1, 2]
        assert one.work.runs == [1]
        await asyncio.sleep(0.4)
        assert one.master.ends() == {1: [End.STOPPED]}
        assert one.master.taken[0].message == "recalled: preempt"
        assert one.work.runs == [1, 2]
        assert one.work.most_alive == 1
        assert one.work.cancelled_at[1] == pytest.approx(recalled_at, abs=0.01)


@virtual
async def test_an_executor_deaf_to_its_cancellation_is_cancelled_once_and_reported_when_gone(tmp_path: Path) -> None:
    class Deaf:
        cancellations = 0

        async def run(self, assignment: AssignmentBody) -> OutcomeBody:
            ends_at = monotonic() + 120
            while (left_s := ends_at - monotonic()) > 0:
                try:
                    await asyncio.sleep(left_s)
                except asyncio.CancelledError:
                    self.cancellations += 1
            return outcome(assignment.execution, End.FAILED)

    deaf = Deaf()
    async with node(tmp_path, Master(), executor=deaf) as one:
        one.master.give(1)
        await asyncio.sleep(1)
        for _ in range(20):
            one.master.say(recalls=[recall(1)])
            await asyncio.sleep(5)
        assert one.master.ends() == {}
        assert one.master.last.held == [1]
        await asyncio.sleep(20)
        assert one.master.ends() == {1: [End.STOPPED]}
        assert deaf.cancellations == 1


@pytest.mark.parametrize("is_end_first", [True, False])
@virtual
async def test_a_recall_racing_with_completion_leaves_one_outcome(tmp_path: Path, is_end_first: bool) -> None:
    async with node(tmp_path, Master()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        if is_end_first:
            one.work.end(1)
            one.master.say(recalls=[recall(1)])
        else:
            one.master.say(recalls=[recall(1)])
            one.work.end(1)
        await asyncio.sleep(3)
        assert len(one.master.ends()[1]) == 1
        assert len(one.ended()[1]) == 1
        assert one.master.last.held == []


@virtual
async def test_what_was_complete_when_the_recall_came_is_complete(tmp_path: Path) -> None:
    class Finishing:
        async def run(self, assignment: AssignmentBody) -> OutcomeBody:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                pass
            return outcome(assignment.execution)

    async with node(tmp_path, Master(), executor=Finishing()) as one:
        one.master.give(1)
        await asyncio.sleep(0.5)
        one.master.say(recalls=[recall(1, Recall.MOVE)])
        await asyncio.sleep(0.5)
        assert one.master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_recalled_before_its_first_step_it_never_starts_and_gives_its_slot_back(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=1) as one:
        one.master.give(9)
        await asyncio.sleep(0.5)
        one.master.is_manual = True
        one.work.end(9)
        second = await one.master.next_call()
        first = one.master.calls[-2]
        await asyncio.sleep(0.001)
        first.reply(SyncDown(SyncVerdict.OK, assignments=[assignment(1)]))
        second.reply(SyncDown(SyncVerdict.OK, recalls=[recall(1)], acknowledged=[9]))
        one.master.is_manual = False
        await asyncio.sleep(1)
        assert one.work.runs == [9]
        assert one.master.ends()[1] == [End.STOPPED]
        one.master.give(2)
        await asyncio.sleep(0.1)
        assert one.work.runs == [9, 2]


@virtual
async def test_a_killed_agent_says_and_saves_nothing_more(tmp_path: Path) -> None:
    async with node(tmp_path, Master(), slots=2, prefetch=2, work=Work(dying_s=1.0)) as one:
        one.master.give(1, 2, 3, 4)
        await asyncio.sleep(0.5)
        one.master.say(recalls=[recall(2)])
        await asyncio.sleep(0.5)
        seen = len(one.events)
        await one.kill()
        assert one.running.cancelled()
        assert one.work.alive == set()
        assert one.work.runs == [1, 2]
        assert len(one.events) == seen
    outbox = Outbox(tmp_path, is_synced=False)
    assert outbox.pending_outcomes() == []
    outbox.close()
