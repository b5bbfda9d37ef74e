"""What the outbox has promised survives a kill between any two operations, and any two bytes."""

import errno
import os
from io import FileIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawlfleet.errors import InvariantBroken
from crawlfleet.execution.agent.work import outbox as outbox_module
from crawlfleet.execution.agent.work.outbox import FILE_NAME, EndedExecution, Outbox
from crawlfleet.model.execution import End
from tests.unit.execution.agent.agent_kit import outcome


def executions(outbox: Outbox) -> list[int]:
    return [ended.outcome.execution for ended in outbox.pending_outcomes()]


def reopened(directory: Path) -> list[int]:
    outbox = Outbox(directory, is_synced=False)
    try:
        return executions(outbox)
    finally:
        outbox.close()


def test_outcomes_outlive_the_process_in_order_and_whole(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.add([EndedExecution(outcome(2, result=b'{"a":[1,2]}'), 5.0), EndedExecution(outcome(1, End.FAILED))])
    outbox.add([EndedExecution(outcome(3))])
    outbox.drop([1])
    outbox.close()
    again = Outbox(tmp_path)
    assert executions(again) == [2, 3]
    first = again.pending_outcomes()[0]
    assert bytes(first.outcome.result) == b'{"a":[1,2]}'
    assert first.started_at is None, "a monotonic instant means nothing to another process"
    again.close()


def test_an_execution_keeps_its_first_outcome(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.add([EndedExecution(outcome(1)), EndedExecution(outcome(1, End.FAILED))])
    outbox.add([EndedExecution(outcome(1, End.STOPPED))])
    assert [ended.outcome.end for ended in outbox.pending_outcomes()] == [End.COMPLETED]
    assert outbox.drop([1, 1, 99]) == [1]
    assert outbox.drop([1]) == []
    assert len(outbox) == 0
    assert 1 not in outbox
    outbox.close()


def test_an_addition_is_synced_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    outbox = Outbox(tmp_path)
    outbox.add([EndedExecution(outcome(3))])
    synced.clear()
    outbox.add([EndedExecution(outcome(1)), EndedExecution(outcome(2))])
    assert len(synced) == 1, "one sync of the disk for all of them"
    outbox.drop([1])
    assert len(synced) == 1
    outbox.close()


def test_cut_at_any_byte_it_reopens_as_it_was_after_some_operation(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "whole", is_synced=False)
    path = tmp_path / "whole" / FILE_NAME
    states: list[tuple[int, list[int]]] = [(0, [])]

    def note() -> None:
        states.append((path.stat().st_size, executions(outbox)))

    for number in range(1, 6):
        outbox.add([EndedExecution(outcome(number, result=b'{"n":%d}' % number))])
        note()
        if number % 2:
            outbox.drop([number])
            note()
    outbox.close()
    data = path.read_bytes()
    for length in range(len(data) + 1):
        directory = tmp_path / "cut"
        directory.mkdir(exist_ok=True)
        (directory / FILE_NAME).write_bytes(data[:length])
        expected = [state for size, state in states if size <= length][-1]
        assert reopened(directory) == expected, length
        assert (directory / FILE_NAME).stat().st_size == max(size for size, _ in states if size <= length)


@pytest.mark.parametrize(
    "tail",
    [b"\x00" * 64, b"\xff" * 7, b"\xff" * 64, b"\x05\x00\x00\x00\x01\x02\x03\x04hello"],
    ids=["zeros", "half a head", "ones", "wrong checksum"],
)
def test_a_tail_that_is_no_frame_is_cut_and_written_over(tmp_path: Path, tail: bytes) -> None:
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(1))])
    outbox.close()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes() + tail)
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(2))])
    outbox.close()
    assert reopened(tmp_path) == [1, 2]


def test_a_flipped_bit_never_reads_as_another_outcome(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(1)), EndedExecution(outcome(2))])
    outbox.close()
    path = tmp_path / FILE_NAME
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
        assert reopened(tmp_path) in ([], [1])


def test_a_whole_record_of_another_kind_is_not_skipped_in_silence(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(outbox_module._encode_frame(msgspec.Raw(b'["other"]')))  # type: ignore[arg-type]
    with pytest.raises(InvariantBroken, match="byte 0"):
        Outbox(tmp_path)


def test_it_is_compacted_when_most_is_acknowledged(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, is_synced=False, compact_bytes=2_000)
    for number in range(1, 1_000):
        outbox.add([EndedExecution(outcome(number), 1.0)])
        outbox.drop([number - 3])
        assert (tmp_path / FILE_NAME).stat().st_size < 2_200
    assert executions(outbox) == [997, 998, 999]
    assert outbox.pending_outcomes()[0].started_at == 1.0
    outbox.close()
    assert reopened(tmp_path) == [997, 998, 999]


def test_a_kill_during_compaction_leaves_the_old_file_in_force(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, is_synced=False)
    outbox.add([EndedExecution(outcome(1))])
    outbox.close()
    (tmp_path / FILE_NAME).with_suffix(".new").write_bytes(b"half a file")
    assert reopened(tmp_path) == [1]


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_a_full_disk_refuses_and_heals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_acknowledged: bool) -> None:
    outbox = Outbox(tmp_path)
    outbox.add([EndedExecution(outcome(1))])
    write = outbox_module._write_all

    def half(file: FileIO, data: bytes) -> None:
        write(file, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(outbox_module, "_write_all", half)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            outbox.add([EndedExecution(outcome(2))])
    if is_acknowledged:
        assert outbox.drop([1]) == [1], "an acknowledgement needs no disk"
    assert executions(outbox) == ([] if is_acknowledged else [1])
    monkeypatch.setattr(outbox_module, "_write_all", write)
    outbox.add([EndedExecution(outcome(2)), EndedExecution(outcome(3))])
    outbox.close()
    assert reopened(tmp_path) == ([2, 3] if is_acknowledged else [1, 2, 3])


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from(["add", "drop", "restart"]), st.integers(1, 12)), max_size=40))
def test_it_is_an_ordered_dictionary_that_survives(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("outbox")
    outbox = Outbox(directory, is_synced=False, compact_bytes=300)
    expected: dict[int, End] = {}
    for position, (step, number) in enumerate(steps):
        match step:
            case "add":
                end = End.COMPLETED if position % 2 else End.FAILED
                outbox.add([EndedExecution(outcome(number, end))])
                expected.setdefault(number, end)
            case "drop":
                outbox.drop([number])
                expected.pop(number, None)
            case _:
                outbox.close()
                outbox = Outbox(directory, is_synced=False, compact_bytes=300)
        assert {ended.outcome.execution: ended.outcome.end for ended in outbox.pending_outcomes()} == expected
        assert executions(outbox) == list(expected)
    outbox.close()
