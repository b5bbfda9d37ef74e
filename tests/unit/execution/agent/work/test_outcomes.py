"""What a node has to say goes in messages of a bounded size, whatever there is to say."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.agent.agent import Departure
from crawlfleet.execution.agent.work.outbox import EndedExecution, Outbox
from crawlfleet.execution.agent.work.outcomes import BATCH_BYTES, BELIEVED_REFUSALS, GROW_S
from crawlfleet.execution.outcome_validation import validate_outcome
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import HANDS_OVER_ONLY, OutcomeBody
from tests.unit.execution.agent.agent_kit import Master, assignment, node, outcome, virtual

BODY_BYTES = 32 << 20
KIB = 1 << 10


def with_products(execution: int, count: int = 100, each_bytes: int = 8 * KIB) -> OutcomeBody:
    product = ["shop", "id", "http://shop/", "x" * 10, None, None, None, {"text": "x" * each_bytes}]
    raw = msgspec.Raw(msgspec.json.encode(product))
    return msgspec.structs.replace(outcome(execution), products=[raw] * count)


def saved(directory: Path, *outcomes: OutcomeBody) -> None:
    outbox = Outbox(directory, is_synced=False)
    outbox.add([EndedExecution(one) for one in outcomes])
    outbox.close()


def in_outbox(directory: Path) -> list[int]:
    outbox = Outbox(directory, is_synced=False)
    outbox.close()
    return [ended.outcome.execution for ended in outbox.pending_outcomes()]


@virtual
async def test_saved_outcomes_larger_than_a_body_go_ahead_of_the_session_in_parts(tmp_path: Path) -> None:
    saved(tmp_path, *(with_products(execution) for execution in range(1, 61)))
    master = Master()
    master.body_bytes = BODY_BYTES
    async with node(tmp_path, master) as one:
        await asyncio.sleep(5)
        assert master.ends() == {execution: [End.COMPLETED] for execution in range(1, 61)}
        assert [up.after for up in master.opens[:-1]] == [HANDS_OVER_ONLY] * (len(master.opens) - 1)
        assert master.opens[-1].after != HANDS_OVER_ONLY
        sizes = [len(msgspec.json.encode(up)) for up in master.opens]
        assert max(sizes) < BATCH_BYTES + KIB
        assert len(sizes) < 20, "and not one by one"
        (opened,) = one.said("session_opened")
        assert opened["reported"] == list(range(1, 61))
    assert in_outbox(tmp_path) == []


@virtual
async def test_more_saved_outcomes_than_a_message_may_count_are_all_handed_over(tmp_path: Path) -> None:
    count = limits.OUTCOMES_PER_SYNC + 7
    saved(tmp_path, *(outcome(execution) for execution in range(1, count + 1)))
    async with node(tmp_path, Master()) as one:
        await asyncio.sleep(1)
        assert [len(up.outcomes) for up in one.master.opens] == [limits.OUTCOMES_PER_SYNC, 7]
        assert len(one.master.taken) == count


@virtual
async def test_products_count_for_the_size_of_a_sync(tmp_path: Path) -> None:
    master = Master()
    master.body_bytes = BODY_BYTES
    async with node(tmp_path, master, slots=60) as one:
        master.give(*range(1, 61))
        await asyncio.sleep(0.5)
        for execution in range(1, 61):
            one.work.end(execution, with_products(execution))
        await asyncio.sleep(5)
        assert sorted(master.ends()) == list(range(1, 61))
        assert one.said("call_failed") == []
        assert max(len(msgspec.json.encode(call.up.outcomes)) for call in master.calls) < BATCH_BYTES + KIB


@virtual
async def test_a_message_that_is_too_large_is_followed_by_smaller_ones(tmp_path: Path) -> None:
    """A proxy may take far less than a master does."""
    saved(tmp_path, *(outcome(execution, result=b'"%s"' % (b"x" * 60 * KIB)) for execution in range(1, 41)))
    master = Master()
    master.body_bytes, master.is_behind_proxy = 1 << 20, True
    async with node(tmp_path, master) as one:
        await asyncio.sleep(10)
        assert master.ends() == {execution: [End.COMPLETED] for execution in range(1, 41)}
        assert len(one.said("call_failed")) < 5
        await asyncio.sleep(10 * GROW_S)
        master.body_bytes = None
        master.give(*range(101, 105))
        await asyncio.sleep(0.5)
        for execution in range(101, 105):
            one.work.end(execution, with_products(execution))
        await asyncio.sleep(1)
        assert max(len(call.up.outcomes) for call in master.calls) == 4, "and larger again after a while"


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "fresh"])
@virtual
async def test_an_outcome_that_is_too_large_alone_fails_its_task_and_nothing_else(
    tmp_path: Path, is_saved: bool
) -> None:
    master = Master()
    master.body_bytes = 1 << 20
    large = with_products(2, each_bytes=15 * KIB)
    if is_saved:
        saved(tmp_path, outcome(1), large, outcome(3))
    async with node(tmp_path, master) as one:
        if not is_saved:
            master.give(1, 2, 3)
            await asyncio.sleep(0.5)
            for execution, said in ((1, outcome(1)), (2, large), (3, outcome(3))):
                one.work.end(execution, said)
        await asyncio.sleep(20)
        assert master.ends() == {1: [End.COMPLETED], 2: [End.FAILED], 3: [End.COMPLETED]}
        (refused,) = [taken for taken in master.taken if taken.execution == 2]
        assert refused.is_permanent
        assert "more than a master takes in one message" in refused.message
        (told,) = one.said("outcome_cut")
        assert (told["execution"], told["task"]) == (2, 1_002)
        master.give(4)
        await asyncio.sleep(0.1)
        assert one.work.alive == {4}, "the node stays"
    assert in_outbox(tmp_path) == []


@virtual
async def test_another_server_is_not_believed_at_once_that_an_outcome_is_too_large(tmp_path: Path) -> None:
    saved(tmp_path, with_products(1, each_bytes=15 * KIB))
    master = Master()
    master.body_bytes, master.is_behind_proxy = 1 << 20, True
    async with node(tmp_path, master) as one:
        while len(one.said("call_failed")) < BELIEVED_REFUSALS - 1:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        assert one.said("outcome_cut") == []
        master.body_bytes = None
        await asyncio.sleep(5)
        assert master.ends() == {1: [End.COMPLETED]}


@virtual
async def test_a_proxy_that_never_takes_an_outcome_does_not_stop_the_node(tmp_path: Path) -> None:
    saved(tmp_path, with_products(1, each_bytes=15 * KIB), outcome(2))
    master = Master()
    master.body_bytes, master.is_behind_proxy = 1 << 20, True
    async with node(tmp_path, master):
        await asyncio.sleep(60)
        assert master.ends() == {1: [End.FAILED], 2: [End.COMPLETED]}


@virtual
async def test_a_small_outcome_is_never_cut(tmp_path: Path) -> None:
    saved(tmp_path, outcome(1, result=b'"small"'))
    master = Master()
    master.body_bytes = 10
    async with node(tmp_path, master) as one:
        await asyncio.sleep(60)
        assert one.said("outcome_cut") == []
        master.body_bytes = None
        await asyncio.sleep(5)
        assert [bytes(taken.result) for taken in master.taken] == [b'"small"']


@virtual
async def test_over_a_slow_line_messages_become_as_small_as_it_takes(tmp_path: Path) -> None:
    master = Master()
    async with node(tmp_path, master, slots=40) as one:
        master.give(*range(1, 41))
        await asyncio.sleep(0.5)
        master.line_bytes_s = 200 * KIB
        for execution in range(1, 41):
            one.work.end(execution, outcome(execution, result=b'"%s"' % (b"x" * 60 * KIB)))
        await asyncio.sleep(60)
        assert sorted({taken.execution for taken in master.taken}) == list(range(1, 41))


@virtual
async def test_a_node_that_leaves_hands_over_everything_it_has_saved(tmp_path: Path) -> None:
    saved(tmp_path, *(with_products(execution) for execution in range(1, 31)))
    master = Master()
    master.is_down = True
    async with node(tmp_path, master) as one:
        one.agent.request_leave(30)
        master.is_down = False
        assert await one.running is Departure.LEFT
        assert len(master.ends()) == 30
    assert in_outbox(tmp_path) == []


def test_products_that_are_padded_beyond_the_bound_fail_the_execution() -> None:
    raw = msgspec.Raw(b'["shop","id","http://shop/"' + b" " * limits.OUTCOME_BYTES + b"]")
    said = validate_outcome(msgspec.structs.replace(outcome(1), products=[raw]), assignment(1))
    assert (said.end, said.products) == (End.FAILED, [])
    assert "come with an outcome" in said.message


def test_an_outcome_that_takes_the_place_of_another_is_found_again(tmp_path: Path) -> None:
    saved(tmp_path, outcome(1), with_products(2), outcome(3))
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.replace(EndedExecution(outcome(2, End.FAILED)))
    outbox.close()
    again = Outbox(tmp_path, is_synced=False)
    again.close()
    assert {one.outcome.execution: End(one.outcome.end) for one in again.pending_outcomes()} == {
        1: End.COMPLETED,
        2: End.FAILED,
        3: End.COMPLETED,
    }
