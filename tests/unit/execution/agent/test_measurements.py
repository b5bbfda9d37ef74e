"""Figures read from the machine: plausible, bounded, and never waited for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil
import pytest

from crawlfleet.execution.agent.events import AgentEvent
from crawlfleet.execution.agent.measurements import (
    ERRORS_HALF_LIFE_S,
    LATENCY_COUNTS_S,
    MAX_TYPES,
    NodeMeasurements,
    memory_limit_bytes,
    memory_share,
)
from crawlfleet.model.execution import End
from testkit.clock import FakeClock
from testkit.patience import PATIENCE_S


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_shares_are_shares(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    clock.advance(2)
    seen = measure()
    for share in (seen.cpu, seen.memory, seen.disk):
        assert 0 <= share <= 1
    assert seen.memory > 0
    assert seen.disk > 0
    assert seen.load >= 0
    assert seen.network_in_bps >= 0


def test_a_busy_node_does_not_look_at_every_sync(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    first = measure()
    assert measure() is first
    clock.advance(1)
    assert measure() is not first


def test_looking_does_not_wait(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    clock.advance(5)
    began_at = time.perf_counter()
    measure()
    assert time.perf_counter() - began_at < 0.2


def test_traffic_is_a_rate_in_bits(clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = type("Counters", (), {"bytes_recv": 1_000, "bytes_sent": 0})()
    monkeypatch.setattr(psutil, "net_io_counters", lambda: counters)
    measure = NodeMeasurements(clock, tmp_path)
    counters.bytes_recv, counters.bytes_sent = 6_000, 500
    clock.advance(2)
    seen = measure()
    assert (seen.network_in_bps, seen.network_out_bps) == (20_000, 2_000)
    # Counters that begin anew are no negative rate; no interface is no traffic.
    counters.bytes_recv = 0
    clock.advance(2)
    assert measure().network_in_bps == 0
    monkeypatch.setattr(psutil, "net_io_counters", lambda: None)
    clock.advance(2)
    assert measure().network_out_bps == 0


def test_a_containers_limit_is_what_counts(tmp_path: Path) -> None:
    whole = psutil.virtual_memory().total
    assert memory_limit_bytes(tmp_path) == whole
    (tmp_path / "memory.max").write_text("max\n")
    assert memory_limit_bytes(tmp_path) == whole
    (tmp_path / "memory.max").write_text(f"{100 << 20}\n")
    (tmp_path / "memory.current").write_text(f"{90 << 20}\n")
    assert memory_limit_bytes(tmp_path) == 100 << 20
    assert memory_share(tmp_path) == pytest.approx(0.9)
    # What can be given back at any moment is no shortage.
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {89 << 20}\n")
    assert memory_share(tmp_path) < 0.9


def test_the_error_rate_follows_how_executions_end(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)

    def end(how: End | None, was_started: bool = True) -> None:
        data = {"end": how, "was_started": was_started, "execution": 1, "task_type": "t"}
        measure.handle_event(AgentEvent.EXECUTION_ENDED, data)

    for _ in range(100):
        end(End.FAILED)
    clock.advance(1)
    assert measure().error_rate > 0.9
    for _ in range(100):
        end(End.COMPLETED)
        end(End.STOPPED)
        end(End.FAILED, was_started=False)
        end(None)
    clock.advance(1)
    assert measure().error_rate < 0.1


def test_the_error_rate_fades_while_nothing_ends(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    for _ in range(100):
        measure.handle_event(
            AgentEvent.EXECUTION_ENDED, {"end": End.FAILED, "was_started": True, "execution": 1, "task_type": "t"}
        )
    clock.advance(ERRORS_HALF_LIFE_S)
    assert measure().error_rate == pytest.approx(0.5, abs=0.01)
    clock.advance(10 * ERRORS_HALF_LIFE_S)
    assert measure().error_rate < 0.001


def test_process_deaths_are_counted_apart_from_failures(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)

    def end(how: End, task_type: str) -> None:
        measure.handle_event(
            AgentEvent.EXECUTION_ENDED, {"end": how, "was_started": True, "execution": 1, "task_type": task_type}
        )

    for how in (End.COMPLETED, End.FAILED, End.TIMED_OUT, End.STOPPED, End.RETURNED):
        end(how, "crawl")
    end(End.DIED_ALONE, "crawl")
    # Forty executions in one process: it died once.
    for _ in range(40):
        end(End.PROCESS_LOST, "sleep")
    clock.advance(2)
    end(End.PROCESS_LOST, "sleep")
    assert measure().ends == [("crawl", 3, 1), ("sleep", 0, 2)]


def test_task_types_beyond_the_limit_are_counted_together(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    for number in range(MAX_TYPES + 5):
        data = {"end": End.COMPLETED, "was_started": True, "execution": 1, "task_type": f"t{number}"}
        measure.handle_event(AgentEvent.EXECUTION_ENDED, data)
    clock.advance(2)
    ends = measure().ends
    assert len(ends) == MAX_TYPES + 1
    assert ends[-1] == ("*", 5, 0)


def test_a_slow_start_is_not_held_against_it_for_ever(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    for _ in range(50):
        measure.note_start(1, 8.0)
    clock.advance(1)
    assert measure().start_latency_s == pytest.approx(8, abs=0.1)
    clock.advance(LATENCY_COUNTS_S + 1)
    assert measure().start_latency_s == 0


def test_what_waits_for_a_process_is_late_before_it_starts(clock: FakeClock, tmp_path: Path) -> None:
    measure = NodeMeasurements(clock, tmp_path)
    for execution in (1, 2):
        measure.handle_event(AgentEvent.EXECUTION_STARTED, {"execution": execution})
        clock.advance(3)
    assert measure().start_latency_s == 6
    # One has its process by now, the other ended without.
    measure.note_start(1, 6.0)
    clock.advance(1)
    assert measure().start_latency_s == 4
    ended = {"execution": 2, "end": End.PROCESS_LOST, "was_started": True, "task_type": "t"}
    measure.handle_event(AgentEvent.EXECUTION_ENDED, ended)
    clock.advance(1)
    assert measure().start_latency_s == pytest.approx(1.2)


async def test_a_gpu_is_asked_for_where_there_is_one(
    clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    measure = NodeMeasurements(clock, tmp_path)
    await asyncio.wait_for(measure.watch_gpu(), PATIENCE_S)  # none: it ends at once
    clock.advance(1)
    assert measure().gpu is None
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 17\necho 64\n")
    program.chmod(0o755)
    watching = asyncio.create_task(measure.watch_gpu())
    async with asyncio.timeout(PATIENCE_S):
        while measure().gpu is None:
            clock.advance(1)
            await asyncio.sleep(0.01)
    assert measure().gpu == pytest.approx(0.64)
    watching.cancel()
    await asyncio.wait({watching})
