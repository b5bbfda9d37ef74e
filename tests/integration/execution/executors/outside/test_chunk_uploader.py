"""What executions stream: numbered chunks at a master, in order and complete, and never more in memory than fits."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from crawlfleet.execution.executors.outside import chunk_uploader
from crawlfleet.execution.executors.outside.agent_executor import AgentExecutor
from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text
from crawlfleet.model.status import ErrorClass
from crawlfleet.ports.executor import Stopped
from crawlfleet.wire.sync import AssignmentBody
from testkit.patience import PATIENCE_S, promised
from tests.integration.execution.executors.executors_kit import (
    ChunkServer,
    assignment,
    cancelled,
    executing,
    metrics_of,
    pid_in,
    until,
)
from tests.paths import ROOT

pytestmark = pytest.mark.integration


async def test_items_come_up_in_numbered_chunks_while_it_runs(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1) as executor:
        given = assignment("streams", {"file": str(tmp_path / "sent"), "count": 3_000})
        outcome = await asyncio.wait_for(executor.run(given), PATIENCE_S)
        items = server.lines(given.execution, "items")
        assert [item["number"] for item in items] == list(range(3_000))
        metrics = metrics_of(outcome)
        chunks = server.chunks[execution_text(given.execution), "items"]
        assert (metrics["items"], metrics["item_chunks"]) == (3_000, len(chunks))
        assert sorted(chunks) == list(range(len(chunks)))
        assert len(chunks) > 5, "three megabytes are several chunks"
        assert metrics["item_bytes"] > 3_000_000


async def test_while_no_master_takes_them_the_process_waits_and_loses_none(tmp_path: Path) -> None:
    server, sent = ChunkServer(), tmp_path / "sent"
    server.status = 503
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        given = assignment("streams", {"file": str(sent), "count": 5_000})
        running = asyncio.create_task(executor.run(given))
        await asyncio.wait_for(server.called.wait(), PATIENCE_S)
        # It fills its window, and then it stands still, however often a master refuses.
        refused = server.calls
        await until(lambda: server.calls >= refused + 3)
        stood_at = await until(lambda: pid_in(sent))
        assert stood_at < 1_500, "one window and no more"
        assert not running.done()
        server.status = 204
        outcome = await asyncio.wait_for(running, PATIENCE_S)
        assert outcome.end == End.COMPLETED
        assert [item["number"] for item in server.lines(given.execution, "items")] == list(range(5_000))


async def test_one_that_a_master_calls_stale_is_stopped(tmp_path: Path) -> None:
    server = ChunkServer()
    server.status, server.problem = 409, {"code": "stale_execution", "detail": "not the live execution"}
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        given = assignment("streams", {"file": str(tmp_path / "sent")})
        outcome = await asyncio.wait_for(executor.run(given), PATIENCE_S)
        assert outcome.end == End.STOPPED
        assert server.calls == 1, "and nothing more is sent"


async def test_one_whose_items_are_refused_fails_with_the_reason(tmp_path: Path) -> None:
    server = ChunkServer()
    server.status, server.problem = 413, {"code": "too_large", "detail": "a chunk of more than 3 bytes"}
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        outcome = await executor.run(assignment("greet", {"name": "you", "items": 1}))
        assert (outcome.end, outcome.error) == (End.FAILED, ErrorClass.INTERNAL)
        assert "more than 3 bytes" in outcome.message


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize("is_master", [True, False])
async def test_what_another_server_or_a_confused_master_refuses_for_a_moment_is_sent_again(
    tmp_path: Path, status: int, is_master: bool
) -> None:
    server = ChunkServer()
    server.status, server.problem = status, {"code": "not_found" if status == 404 else "not_allowed", "detail": "what?"}
    if not is_master:
        server.problem["type"] = "about:blank"
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        given = assignment("greet", {"name": "you", "items": 1})
        running = asyncio.create_task(executor.run(given))
        await until(lambda: server.calls >= 2)
        server.status = 204
        assert (await asyncio.wait_for(running, 30)).end == End.COMPLETED
        assert len(server.lines(given.execution, "items")) == 1


async def test_what_a_master_does_not_know_for_long_is_no_mistake_of_the_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_uploader, "BELIEVED_S", 0.2)
    server = ChunkServer()
    server.status, server.problem = 404, {"code": "not_found", "detail": "nothing is at that path"}
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        outcome = await asyncio.wait_for(executor.run(assignment("greet", {"name": "you", "items": 1})), 30)
        assert (outcome.end, outcome.error) == (End.FAILED, ErrorClass.INTERNAL)
        assert "nothing is at that path" in outcome.message


async def test_stopped_while_it_streams_it_stops_in_time(tmp_path: Path) -> None:
    server = ChunkServer()
    server.status = 503
    async with server.serving(), executing(tmp_path, server, processes=1) as executor:
        running = asyncio.create_task(executor.run(assignment("streams", {"file": str(tmp_path / "sent")})))
        await asyncio.wait_for(server.called.wait(), PATIENCE_S)
        assert await cancelled(running) < promised(1.5)
        calls = server.calls
        await asyncio.sleep(0.5)
        assert server.calls == calls


@pytest.mark.parametrize("is_shared", [True, False])
@pytest.mark.parametrize("then", ["fail", "die", "wait"])
async def test_one_that_does_not_complete_tells_of_its_log_and_counts_no_items(
    tmp_path: Path, then: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    as_builtin = ("stumbles",) if is_shared else ()
    async with ChunkServer().serving() as server, executing(tmp_path, server, as_builtin=as_builtin) as executor:
        given = assignment("stumbles", {"then": then})
        running = asyncio.create_task(stopped_or_over(executor, given))
        if then == "wait":
            await until(lambda: server.lines(given.execution, "log"))
            running.cancel()
        metrics = json.loads(bytes(await asyncio.wait_for(running, PATIENCE_S)))
        lines = server.lines(given.execution, "log")
        assert lines[0]["message"] == "got this far"
        told = {"items": 0, "item_chunks": 0, "item_bytes": 0, "log_chunks": 1}
        # Who dies tells no figures any more.
        assert metrics == told | ({} if then == "die" else {"pages": 3})


async def stopped_or_over(executor: AgentExecutor, given: AssignmentBody) -> msgspec.Raw:
    """The metrics, whichever way they are told."""
    try:
        return (await executor.run(given)).metrics
    except Stopped as exc:
        return exc.metrics


async def test_a_master_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server:
        away = "http://127.0.0.1:9"
        async with executing(tmp_path, server, masters=[away, server.url], processes=1) as executor:
            given = assignment("greet", {"name": "you", "items": 2})
            outcome = await asyncio.wait_for(executor.run(given), PATIENCE_S)
            assert outcome.end == End.COMPLETED
            assert len(server.lines(given.execution, "items")) == 2


async def test_log_lines_that_come_too_fast_are_dropped_and_counted(tmp_path: Path) -> None:
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1, slots=10_000) as executor:
        given = assignment("chatters", {"lines": 20_000})
        outcome = await asyncio.wait_for(executor.run(given), PATIENCE_S)
        assert outcome.end == End.COMPLETED
        lines = [line["message"] for line in server.lines(given.execution, "log")]
        dropped = sum(int(line.split()[0]) for line in lines if "dropped" in line)
        kept = [line for line in lines if line.startswith("line ")]
        assert kept[0].startswith("line 0 ")
        # Those dropped at the very end have nobody left to count them to.
        assert len(kept) + dropped <= 20_000
        assert len(kept) > 100


async def test_a_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_uploader, "LOG_BYTES", 20_000)
    async with ChunkServer().serving() as server, executing(tmp_path, server, processes=1) as executor:
        given = assignment("chatters", {"lines": 2_000})
        outcome = await asyncio.wait_for(executor.run(given), PATIENCE_S)
        assert outcome.end == End.COMPLETED
        lines = [line["message"] for line in server.lines(given.execution, "log")]
        assert len([line for line in lines if "log ends here" in line]) == 1
        assert sum(map(len, lines)) < 20_000
