"""Slots count processes, not intentions; and what executors say is kept within bounds."""

import json

import msgspec
import pytest

from crawlfleet.execution.agent.work.slots import HeldExecution, HeldState, Slots, StopCause
from crawlfleet.execution.outcome_validation import validate_outcome
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.wire.sync import NULL, OutcomeBody
from tests.unit.execution.agent.agent_kit import assignment, outcome


def filled(slots: Slots, *executions: int) -> list[HeldExecution]:
    moved = []
    for execution in executions:
        slots.add(HeldExecution(assignment(execution), 1))
        if (running := slots.start_next_waiting()) is not None:
            running.started_at = 0.0
            moved.append(running)
    return moved


def test_what_waits_takes_a_slot_only_when_one_is_free() -> None:
    slots = Slots(2, prefetch=1)
    first, _ = filled(slots, 1, 2, 3)
    assert (slots.free_count, slots.acceptable_count, len(slots)) == (0, 0, 3)
    assert slots.held_ids() == [1, 2, 3]
    assert slots.start_next_waiting() is None
    first.stop(StopCause.RECALL)
    assert slots.start_next_waiting() is None, "told to stop is not gone"
    slots.remove(first)
    moved = slots.start_next_waiting()
    assert moved is not None
    assert moved.id == 3
    assert moved.state is HeldState.WAITING


def test_lowering_the_count_stops_nothing() -> None:
    slots = Slots(3)
    running = filled(slots, 1, 2, 3)
    assert slots.resize(1)
    assert (slots.free_count, slots.acceptable_count, slots.held_ids()) == (0, 0, [1, 2, 3])
    for one in running[:2]:
        slots.remove(one)
    assert slots.free_count == 0
    slots.remove(running[2])
    assert slots.free_count == 1
    assert slots.resize(None)
    assert slots.free_count == 3
    assert not slots.resize(3)
    slots.resize(10**9)
    assert slots.count == limits.SLOTS_MAX


def test_abandoned_work_is_not_held_but_fills_its_slot() -> None:
    slots = Slots(2)
    first, _ = filled(slots, 1, 2)
    first.stop(StopCause.ABANDON)
    assert slots.held_ids() == [2]
    assert slots.offered_count == 1
    assert slots.free_count == 0
    assert [one.id for one in slots.unreported_starts()] == [2]


@pytest.mark.parametrize(
    ("causes", "last"),
    [
        ([StopCause.HAND_BACK, StopCause.RECALL], StopCause.RECALL),
        ([StopCause.RECALL, StopCause.HAND_BACK], StopCause.RECALL),
        ([StopCause.RECALL, StopCause.LEASE], StopCause.LEASE),
        ([StopCause.TIMEOUT, StopCause.LEASE, StopCause.RECALL], StopCause.TIMEOUT),
        ([StopCause.RECALL, StopCause.TIMEOUT], StopCause.RECALL),
        ([StopCause.TIMEOUT, StopCause.ABANDON, StopCause.LEASE], StopCause.ABANDON),
    ],
)
def test_which_cause_of_several_holds(causes: list[StopCause], last: StopCause) -> None:
    running = HeldExecution(assignment(1), 1)
    for cause in causes:
        running.stop(cause)
    assert running.cause is last
    assert running.state is HeldState.STOPPING


def test_a_large_result_is_replaced_by_json_that_says_so() -> None:
    said = outcome(1, result=json.dumps({"data": "x" * limits.RESULT_BYTES}).encode())
    said = msgspec.structs.replace(said, metrics=msgspec.Raw(b'"' + b"m" * limits.METRICS_BYTES + b'"'))
    kept = validate_outcome(said, assignment(1))
    assert kept.end == End.COMPLETED
    assert json.loads(bytes(kept.result))["truncated"] is True
    assert json.loads(bytes(kept.metrics))["limit_bytes"] == limits.METRICS_BYTES


def test_a_result_of_the_allowed_size_stays_as_it_is() -> None:
    result = b'"' + b"x" * (limits.RESULT_BYTES - 2) + b'"'
    assert bytes(validate_outcome(outcome(1, result=result), assignment(1)).result) == result
    assert validate_outcome(outcome(1, result=b""), assignment(1)).result == NULL


@pytest.mark.parametrize("result", [b"{", b"NaN", b'"\xff"', b"[" * 5_000 + b"]" * 5_000, b"{} {}"])
def test_a_result_that_is_no_json_is_a_failure_of_the_executor(result: bytes) -> None:
    kept = validate_outcome(outcome(1, result=result), assignment(1))
    assert (kept.end, kept.error) == (End.FAILED, ErrorClass.INTERNAL)
    assert "result is not JSON" in kept.message
    assert len(kept.message) <= limits.MESSAGE_CHARS


def test_ids_come_from_the_assignment_and_words_are_cleaned() -> None:
    said = OutcomeBody(5, 6, End.FAILED, message="a\x00b\ud800" + "c" * 10_000, is_permanent=True, started_ms_ago=3)
    kept = validate_outcome(said, assignment(1))
    assert (kept.task, kept.execution, kept.error) == (1_001, 1, ErrorClass.INTERNAL)
    assert kept.message.startswith("a\N{REPLACEMENT CHARACTER}b?c")
    assert len(kept.message) == limits.MESSAGE_CHARS
    assert kept.is_permanent
    assert kept.started_ms_ago is None
    msgspec.json.encode(kept)


@pytest.mark.parametrize("said", [OutcomeBody(1, 1, 77), OutcomeBody(1, 1, End.FAILED, error=77)])
def test_words_that_nobody_knows_are_a_failure_of_the_executor(said: OutcomeBody) -> None:
    kept = validate_outcome(said, assignment(1))
    assert (kept.end, kept.error) == (End.FAILED, ErrorClass.INTERNAL)
