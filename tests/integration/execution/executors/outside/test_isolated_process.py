"""Users' executions, each in a process of its own: whatever they do, only they suffer, and nothing stays behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.executor import STOP_WITHIN_S
from testkit.patience import PATIENCE_S, promised
from tests.integration.execution.executors.executors_kit import (
    ChunkServer,
    assignment,
    cancelled,
    executing,
    is_alive,
    metrics_of,
    open_files,
    pid_in,
    result_of,
    until,
)

pytestmark = pytest.mark.integration


async def test_functions_and_classes_run(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server) as executor:
        given = assignment("greet", {"name": "you", "items": 3}, retry=2)
        outcome = await executor.run(given)
        assert outcome.end == End.COMPLETED
        assert result_of(outcome)["hello"] == "you"
        assert result_of(outcome)["attempt"] == 2
        assert result_of(outcome)["task"] == f"task-{given.task:016x}"
        assert [item["number"] for item in server.lines(given.execution, "items")] == [0, 1, 2]
        metrics = metrics_of(outcome)
        assert (metrics["items"], metrics["item_chunks"], metrics["log_chunks"], metrics["pages"]) == (3, 1, 1, 3)
        assert result_of(await executor.run(assignment("shout", {"word": "hey"}))) == "HEY"


async def test_a_plain_function_runs_in_a_thread_and_what_it_prints_is_its_log(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server) as executor:
        given = assignment("plain")
        outcome = await executor.run(given)
        assert result_of(outcome) == {"thread": True}
        assert server.lines(given.execution, "items") == [{"from": "a thread"}]
        said = {(line["level"], line["message"]) for line in server.lines(given.execution, "log")}
        assert said == {("info", "said on stdout"), ("warning", "said on stderr"), ("info", "said by log")}
        assert server.bearers == {"Bearer the node's secret"}


async def test_it_sees_no_secrets_and_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAWLFLEET_ENROL_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with executing(tmp_path) as executor:
        seen = result_of(await executor.run(assignment("look_around")))
        assert not {"CRAWLFLEET_ENROL_TOKEN", "AWS_SECRET_ACCESS_KEY"} & set(seen["env"])
        assert seen["files"] == []
        assert Path(seen["cwd"]).name not in [path.name for path in (tmp_path / "work").iterdir()]


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("value", ErrorClass.INTERNAL, "ValueError: not this one"),
        ("connection", ErrorClass.NETWORK, "ConnectionRefusedError: nobody there"),
        ("memory", ErrorClass.CRASH, "ran out of memory"),
        ("exit", ErrorClass.CRASH, "called exit(4)"),
        ("timeout", ErrorClass.TIMEOUT, "TimeoutError: too slow"),
        ("own", ErrorClass.BLOCKED, "blocked by the site"),
    ],
)
async def test_exceptions_are_classified(tmp_path: Path, what: str, error: ErrorClass, message: str) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1) as executor:
        given = assignment("raises", {"what": what})
        outcome = await executor.run(given)
        assert (outcome.end, outcome.error, outcome.message) == (End.FAILED, error, message)
        assert outcome.is_permanent == (what == "own")
        log = "".join(line["message"] for line in server.lines(given.execution, "log"))
        assert ("Traceback" in log) == (what != "own")


async def test_results_are_json_and_bounded(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1) as executor:
        outcome = await executor.run(assignment("returns", {"what": "object"}))
        assert outcome.end == End.FAILED
        assert "not JSON" in outcome.message
        outcome = await executor.run(assignment("returns", {"what": "large"}))
        assert result_of(outcome) == {"truncated": True, "size_bytes": 100_002, "limit_bytes": limits.RESULT_BYTES}
        assert result_of(await executor.run(assignment("returns", {"what": "nan"}))) is None


@pytest.mark.parametrize("task_type", ["eats_memory", "eats_memory_below"])
async def test_one_that_eats_memory_is_killed_by_its_limit(tmp_path: Path, task_type: str) -> None:
    async with executing(tmp_path, memory_mb=150, processes=1) as executor:
        neighbour = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        outcome = await asyncio.wait_for(executor.run(assignment(task_type)), PATIENCE_S)
        assert (outcome.end, outcome.error) == (End.DIED_ALONE, ErrorClass.CRASH)
        assert outcome.message == "used more than 150 MB of memory"
        assert not neighbour.done()
        neighbour.cancel()
        await asyncio.wait({neighbour})


@pytest.mark.parametrize(("allocated", "limit"), [(200, 200), (50, 150)])
async def test_one_that_was_allocated_more_than_is_usual_may_use_it(tmp_path: Path, allocated: int, limit: int) -> None:
    async with executing(tmp_path, memory_mb=150, processes=1) as executor:
        outcome = await asyncio.wait_for(executor.run(assignment("eats_memory", memory_mb=allocated)), PATIENCE_S)
        assert outcome.message == f"used more than {limit} MB of memory"


async def test_one_that_asks_for_all_memory_at_once_fails(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, memory_mb=150, processes=1) as executor:
        outcome = await executor.run(assignment("grabs_memory"))
        assert (outcome.end, outcome.error, outcome.message) == (End.FAILED, ErrorClass.CRASH, "ran out of memory")


async def test_one_that_multiplies_is_killed_with_all_its_offspring(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        outcome = await asyncio.wait_for(executor.run(assignment("multiplies")), PATIENCE_S)
        assert (outcome.end, outcome.error) == (End.DIED_ALONE, ErrorClass.CRASH)
        assert "processes" in outcome.message or "memory" in outcome.message


async def test_without_a_place_to_run_in_it_is_lost_and_not_hung(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        (tmp_path / "work").rmdir()
        outcome = await asyncio.wait_for(executor.run(assignment("look_around")), PATIENCE_S)
        assert outcome.end == End.PROCESS_LOST
        (tmp_path / "work").mkdir()
        assert (await executor.run(assignment("look_around"))).end == End.COMPLETED


@pytest.mark.parametrize("then", ["wait", "end", "die"])
async def test_no_process_of_its_family_stays(tmp_path: Path, then: str) -> None:
    """Children, grandchildren, and daemons in a session of their own that ignore every signal they can."""
    folder = tmp_path / "family"
    folder.mkdir()
    async with executing(tmp_path, processes=1) as executor:
        running = asyncio.create_task(executor.run(assignment("family", {"folder": str(folder), "then": then})))
        await until(lambda: pid_in(folder / "self"))
        pids = [pid_in(folder / name) for name in ("child", "grandchild", "daemon", "self")]
        if then == "wait":
            assert all(pid is not None and is_alive(pid) for pid in pids)
            assert await cancelled(running) < promised(STOP_WITHIN_S)
        else:
            outcome = await asyncio.wait_for(running, PATIENCE_S)
            assert outcome.end == (End.COMPLETED if then == "end" else End.DIED_ALONE)
        assert not [pid for pid in pids if pid is not None and is_alive(pid)], "when it is over, it is over"


@pytest.mark.parametrize("task_type", ["ignores_cancel", "holds_interpreter"])
async def test_one_that_does_not_stop_is_killed(tmp_path: Path, task_type: str) -> None:
    async with executing(tmp_path, processes=1) as executor:
        file = tmp_path / "pid"
        running = asyncio.create_task(executor.run(assignment(task_type, {"file": str(file)})))
        pid = await until(lambda: pid_in(file))
        assert (await executor.run(assignment("echo"))).end == End.COMPLETED, "others do not notice"
        assert await cancelled(running) < promised(STOP_WITHIN_S)
        assert not is_alive(pid)


async def test_stopping_comes_through_even_when_asked_again_and_again(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        file = tmp_path / "pid"
        running = asyncio.create_task(executor.run(assignment("ignores_cancel", {"file": str(file)})))
        pid = await until(lambda: pid_in(file))
        asked = 0
        while not running.done():
            running.cancel()
            asked += 1
            await asyncio.sleep(0.01)
        assert asked > 1
        assert not is_alive(pid)


@pytest.mark.parametrize(
    ("how", "message"),
    [("exit", "exit code 3"), ("SIGSEGV", "SIGSEGV"), ("SIGKILL", "SIGKILL"), ("SIGTERM", "SIGTERM")],
)
async def test_its_death_is_told_with_its_last_words(tmp_path: Path, how: str, message: str) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1) as executor:
        given = assignment("dies", {"how": how})
        outcome = await executor.run(given)
        assert (outcome.end, outcome.error) == (End.DIED_ALONE, ErrorClass.CRASH)
        assert message in outcome.message
        assert "last words" in outcome.message
        assert [line["message"] for line in server.lines(given.execution, "log")] == ["first words", "last words"]


async def test_one_that_breaks_off_the_connection_is_ended(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        outcome = await asyncio.wait_for(executor.run(assignment("breaks_off")), PATIENCE_S)
        assert outcome.end == End.DIED_ALONE
        assert "broke off" in outcome.message


async def test_many_at_once_leave_no_descriptor_behind(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        await executor.run(assignment("shout", {"word": "a"}))
        before = open_files()
        outcomes = await asyncio.gather(*[executor.run(assignment("shout", {"word": "a"})) for _ in range(10)])
        assert {outcome.end for outcome in outcomes} == {End.COMPLETED}
        await until(lambda: open_files() <= before)


async def test_closing_ends_everything(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with executing(tmp_path, processes=1) as executor:
        await executor.run(assignment("echo"))
        alone = asyncio.create_task(executor.run(assignment("ignores_cancel", {"file": str(file)})))
        shared = asyncio.create_task(executor.run(assignment("sleep", {"seconds": 60})))
        pid = await until(lambda: pid_in(file))
    assert not is_alive(pid)
    assert (await alone).end == End.DIED_ALONE
    assert (await shared).end == End.PROCESS_LOST


async def test_closing_while_everything_is_still_starting_leaves_nothing(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        running = [asyncio.create_task(executor.run(assignment(name))) for name in ("echo", "look_around")]
        # A few turns of the loop, which no process needs to be up.
        for _ in range(5):
            await asyncio.sleep(0)
    assert [(await task).end for task in running] == [End.RETURNED, End.DIED_ALONE]


async def test_stopped_while_it_is_being_started_it_stops(tmp_path: Path) -> None:
    async with executing(tmp_path, processes=1) as executor:
        for steps in range(8):
            running = asyncio.create_task(executor.run(assignment("ignores_cancel", {"file": str(tmp_path / "pid")})))
            for _ in range(steps):
                await asyncio.sleep(0.005)
            assert await cancelled(running) < promised(STOP_WITHIN_S)
