"""Slots count processes, not intentions; and what executors say is kept within bounds."""

import json

import msgspec
import pytest

from crawlfleet.execution.agent.work.slots import Cause, Running, Slots, State
from crawlfleet.execution.outcome_validation import bounded
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.sync import NULL, OutcomeBody
from tests.unit.execution.agent.agent_kit import assignment, outcome


def filled(slots: Slots, *executions: int) -> list[Running]:
    moved = []
    for execution in executions:
        slots.add(Running(assignment(execution), 1))
        if (running := slots.next_waiting()) is not None:
            running.started_at = 0.0
            moved.append(running)
    return moved


def test_what_waits_takes_a_slot_only_when_one_is_free() -> None:
    slots = Slots(2, prefetch=1)
    first, _ = filled(slots, 1, 2, 3)
    assert (slots.free, slots.room, len(slots)) == (0, 0, 3)
    assert slots.held() == [1, 2, 3]
    assert slots.next_waiting() is None
    first.stop(Cause.RECALL)
    assert slots.next_waiting() is None, "told to stop is not gone"
    slots.remove(first)
    moved = slots.next_waiting()
    assert moved is not None
    assert moved.execution == 3
    assert moved.state is State.WAITING


def test_lowering_the_count_stops_nothing() -> None:
    slots = Slots(3)
    running = filled(slots, 1, 2, 3)
    assert slots.resize(1)
    assert (slots.free, slots.room, slots.held()) == (0, 0, [1, 2, 3])
    for one in running[:2]:
        slots.remove(one)
    assert slots.free == 0
    slots.remove(running[2])
    assert slots.free == 1
    assert slots.resize(None)
    assert slots.free == 3
    assert not slots.resize(3)
    slots.resize(10**9)
    assert slots.count == limits.SLOTS_MAX


def test_abandoned_work_is_not_held_but_fills_its_slot() -> None:
    slots = Slots(2)
    first, _ = filled(slots, 1, 2)
    first.stop(Cause.ABANDON)
    assert slots.held() == [2]
    assert slots.offered == 1
    assert slots.free == 0
    assert [one.execution for one in slots.untold_starts()] == [2]


@pytest.mark.parametrize(
    ("causes", "last"),
    [
        ([Cause.HAND_BACK, Cause.RECALL], Cause.RECALL),
        ([Cause.RECALL, Cause.HAND_BACK], Cause.RECALL),
        ([Cause.RECALL, Cause.LEASE], Cause.LEASE),
        ([Cause.TIMEOUT, Cause.LEASE, Cause.RECALL], Cause.TIMEOUT),
        ([Cause.RECALL, Cause.TIMEOUT], Cause.RECALL),
        ([Cause.TIMEOUT, Cause.ABANDON, Cause.LEASE], Cause.ABANDON),
    ],
)
def test_which_cause_of_several_holds(causes: list[Cause], last: Cause) -> None:
    running = Running(assignment(1), 1)
    for cause in causes:
        running.stop(cause)
    assert running.cause is last
    assert running.state is State.STOPPING


def test_a_large_result_is_replaced_by_json_that_says_so() -> None:
    said = outcome(1, result=json.dumps({"data": "x" * limits.RESULT_BYTES}).encode())
    said = msgspec.structs.replace(said, metrics=msgspec.Raw(b'"' + b"m" * limits.METRICS_BYTES + b'"'))
    kept = bounded(said, assignment(1))
    assert kept.end == End.COMPLETED
    assert json.loads(bytes(kept.result))["truncated"] is True
    assert json.loads(bytes(kept.metrics))["limit_bytes"] == limits.METRICS_BYTES


def test_a_result_of_the_allowed_size_stays_as_it_is() -> None:
    result = b'"' + b"x" * (limits.RESULT_BYTES - 2) + b'"'
    assert bytes(bounded(outcome(1, result=result), assignment(1)).result) == result
    assert bounded(outcome(1, result=b""), assignment(1)).result == NULL


@pytest.mark.parametrize("result", [b"{", b"NaN", b'"\xff"', b"[" * 5_000 + b"]" * 5_000, b"{} {}"])
def test_a_result_that_is_no_json_is_a_failure_of_the_executor(result: bytes) -> None:
    kept = bounded(outcome(1, result=result), assignment(1))
    assert (kept.end, kept.error) == (End.FAILED, ErrorClass.INTERNAL)
    assert "result is not JSON" in kept.message
    assert len(kept.message) <= limits.MESSAGE_CHARS


def test_ids_come_from_the_assignment_and_words_are_cleaned() -> None:
    said = OutcomeBody(5, 6, End.FAILED, message="a\x00b\ud800" + "c" * 10_000, is_permanent=True, started_ms_ago=3)
    kept = bounded(said, assignment(1))
    assert (kept.task, kept.execution, kept.error) == (1_001, 1, ErrorClass.INTERNAL)
    assert kept.message.startswith("a\N{REPLACEMENT CHARACTER}b?c")
    assert len(kept.message) == limits.MESSAGE_CHARS
    assert kept.is_permanent
    assert kept.started_ms_ago is None
    msgspec.json.encode(kept)


@pytest.mark.parametrize("said", [OutcomeBody(1, 1, 77), OutcomeBody(1, 1, End.FAILED, error=77)])
def test_words_that_nobody_knows_are_a_failure_of_the_executor(said: OutcomeBody) -> None:
    kept = bounded(said, assignment(1))
    assert (kept.end, kept.error) == (End.FAILED, ErrorClass.INTERNAL)
