"""Built-in types in shared executor processes: many at once, and what happens when a process dies or hangs."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.executor import STOP_WITHIN_S
from crawlfleet.wire.sync import NULL
from testkit.patience import PATIENCE_S, promised
from tests.integration.execution.executors.executors_kit import (
    ChunkServer,
    assignment,
    cancelled,
    executing,
    is_alive,
    pid_in,
    result_of,
    until,
)
from tests.paths import ROOT

pytestmark = pytest.mark.integration


async def test_echo_gives_its_parameters_back_and_calls_nobody(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server) as executor:
        outcome = await executor.run(assignment("echo", {"a": [1, {"b": "ü"}]}))
        assert (outcome.end, result_of(outcome)) == (End.COMPLETED, {"a": [1, {"b": "ü"}]})
        assert outcome.metrics == NULL
        assert server.calls == 0


async def test_thousands_at_once_each_get_their_own_answer(tmp_path: Path) -> None:
    async with executing(tmp_path) as executor:
        given = [assignment("echo", {"number": number}) for number in range(3_000)]
        outcomes = await asyncio.gather(*map(executor.run, given))
        assert [result_of(outcome)["number"] for outcome in outcomes] == list(range(3_000))
        assert [outcome.execution for outcome in outcomes] == [one.execution for one in given]
        # Parameters far larger than a socket's buffer, all in one turn.
        large = [assignment("echo", {"text": "x" * 60_000, "number": number}) for number in range(300)]
        outcomes = await asyncio.gather(*map(executor.run, large))
        assert [result_of(outcome)["number"] for outcome in outcomes] == list(range(300))


async def test_fail_fails_as_often_as_asked(tmp_path: Path) -> None:
    async with executing(tmp_path) as executor:
        asked = {"times": 2, "class": "http", "permanent": True}
        ends = [await executor.run(assignment("fail", asked, retry=retry)) for retry in range(3)]
        assert [outcome.end for outcome in ends] == [End.FAILED, End.FAILED, End.COMPLETED]
        assert (ends[0].error, ends[0].is_permanent) == (ErrorClass.HTTP, True)
        assert "1 of 2" in ends[0].message


async def test_parameters_that_do_not_fit_fail_for_good_before_anything_runs(tmp_path: Path) -> None:
    """Those of a step of a flow are filled in after its submit was checked."""
    async with executing(tmp_path) as executor:
        outcome = await executor.run(assignment("sleep", {"seconds": "long"}))
        assert (outcome.end, outcome.error, outcome.is_permanent) == (End.FAILED, ErrorClass.INPUT, True)
        assert outcome.message == "parameters.seconds: must be a number, not 'long'"


async def test_sleep_honours_recall_at_once(tmp_path: Path) -> None:
    async with executing(tmp_path) as executor:
        assert result_of(await executor.run(assignment("sleep", {"seconds": 0.01}))) == {"slept_s": 0.01}
        running = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        await until(lambda: sum(process.execution_count for process in executor.shared_processes))
        assert await cancelled(running) < 0.5
        # Cancelled before its process has even seen it.
        await executor.run(assignment("echo"))
        running = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        await asyncio.sleep(0)
        assert await cancelled(running) < 0.5
        assert len(executor.shared_processes) == 2, "nobody had to be killed"


async def test_an_unknown_type_fails_by_name(tmp_path: Path) -> None:
    async with executing(tmp_path) as executor:
        outcome = await executor.run(assignment("no_such_type"))
        assert (outcome.end, outcome.error) == (End.FAILED, ErrorClass.INTERNAL)
        assert "no_such_type" in outcome.message


async def test_when_a_shared_process_is_killed_its_executions_are_lost_and_it_comes_back(tmp_path: Path) -> None:
    async with executing(tmp_path) as executor:
        await executor.run(assignment("echo"))
        await until(
            lambda: (
                all(process.is_usable for process in executor.shared_processes) and len(executor.shared_processes) == 2
            )
        )
        running = [asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60}))) for _ in range(20)]
        await until(lambda: sum(process.execution_count for process in executor.shared_processes) == 20)
        assert [process.execution_count for process in executor.shared_processes] == [10, 10], (
            "the least busy one takes the next"
        )
        victim, other = executor.shared_processes
        os.kill(victim.pid, signal.SIGKILL)
        await until(lambda: sum(task.done() for task in running) >= 10)
        done, pending = await asyncio.wait(running, timeout=0)
        assert (len(done), len(pending)) == (10, 10)
        assert {task.result().end for task in done} == {End.PROCESS_LOST}
        assert "SIGKILL" in next(iter(done)).result().message
        assert other.execution_count == 10
        await until(lambda: len([process for process in executor.shared_processes if process.is_usable]) == 2)
        assert victim.pid not in [process.pid for process in executor.shared_processes]
        assert (await executor.run(assignment("echo"))).end == End.COMPLETED
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)


async def test_a_process_whose_interpreter_is_held_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with executing(tmp_path, as_builtin=("holds_interpreter",), processes=1) as executor:
        file = tmp_path / "pid"
        guilty = asyncio.create_task(executor.run(assignment("holds_interpreter", {"file": str(file)})))
        innocent = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        pid = await until(lambda: pid_in(file))
        outcomes = await asyncio.wait_for(asyncio.gather(guilty, innocent), PATIENCE_S)
        assert {outcome.end for outcome in outcomes} == {End.PROCESS_LOST}
        assert "did not answer" in outcomes[0].message
        assert not is_alive(pid)
        assert (await executor.run(assignment("echo"))).end == End.COMPLETED


async def test_one_that_does_not_stop_costs_its_process_but_not_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with executing(tmp_path, as_builtin=("ignores_cancel",), processes=1) as executor:
        file = tmp_path / "pid"
        guilty = asyncio.create_task(executor.run(assignment("ignores_cancel", {"file": str(file)})))
        innocent = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        pid = await until(lambda: pid_in(file))
        assert await cancelled(guilty) < promised(STOP_WITHIN_S)
        assert not is_alive(pid)
        assert (await innocent).end == End.PROCESS_LOST


async def test_alone_even_a_builtin_has_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    async with executing(tmp_path, as_builtin=("dies",), processes=1) as executor:
        await executor.run(assignment("echo"))
        innocent = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        outcome = await executor.run(assignment("dies", {"how": "SIGSEGV"}, is_alone=True))
        assert outcome.end == End.DIED_ALONE
        assert not innocent.done()
        assert (await executor.run(assignment("echo", {"a": 1}, is_alone=True))).end == End.COMPLETED
        # In company the same death takes its neighbours along.
        outcome = await executor.run(assignment("dies", {"how": "SIGSEGV"}))
        assert (outcome.end, (await innocent).end) == (End.PROCESS_LOST, End.PROCESS_LOST)
