"""For tests of executor processes: real ones, and a small real server that takes what they stream."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import zstandard
from aiohttp import web

from crawlfleet.execution.executors.outside.agent_executor import AgentExecutor
from crawlfleet.execution.executors.outside.chunk_uploader import ChunkUploader
from crawlfleet.execution.executors.registry import builtin_entries, load_user_entries
from crawlfleet.execution.master_calls.http_calls import open_http_session
from crawlfleet.execution.master_calls.master_directory import MasterDirectory
from crawlfleet.model.ids import execution_text
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody
from testkit.patience import PATIENCE_S

USERS = "tests.integration.execution.executors.user_executors"
SECRET = "the node's secret"
_executions = itertools.count(1000)


class ChunkServer:
    """Keeps the chunks that are put to it. `answer` decides what it answers; 204 unless told otherwise."""

    def __init__(self) -> None:
        self.url = ""
        self.chunks: dict[tuple[str, str], dict[int, list[Any]]] = defaultdict(dict)
        self.calls = 0
        self.status = 204
        self.problem: dict[str, Any] = {}
        self.bearers: set[str] = set()
        self.called = asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ChunkServer]:
        app = web.Application(client_max_size=4 << 20)
        app.router.add_put("/api/v1/executions/{execution}/{kind}/{number}", self._put)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, auto_decompress=False)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def lines(self, execution: int, kind: str) -> list[Any]:
        chunks = self.chunks[execution_text(execution), kind]
        return [line for number in sorted(chunks) for line in chunks[number]]

    async def _put(self, request: web.Request) -> web.Response:
        self.calls += 1
        self.called.set()
        self.bearers.add(request.headers["Authorization"])
        if self.status != 204:
            problem = {"type": f"urn:crawlfleet:error:{self.problem.get('code')}", **self.problem}
            return web.json_response(problem, status=self.status, content_type="application/problem+json")
        assert request.headers["Content-Encoding"] == "zstd"
        assert request.query["task"].startswith("task-")
        body = zstandard.ZstdDecompressor().decompress(await request.read(), max_output_size=8 << 20)
        named = (request.match_info["execution"], request.match_info["kind"])
        self.chunks[named][int(request.match_info["number"])] = [json.loads(line) for line in body.splitlines()]
        return web.Response(status=204)


@asynccontextmanager
async def executing(
    directory: Path,
    server: ChunkServer | None = None,
    *,
    as_builtin: tuple[str, ...] = (),
    masters: list[str] | None = None,
    **settings: Any,
) -> AsyncIterator[AgentExecutor]:
    """All types of the users' module and the built-in ones. Leaves no process behind, or fails."""
    entries = dict(builtin_entries()) | load_user_entries([USERS])
    for name in as_builtin:
        entries[name] = replace(entries[name], is_builtin=True)
    before = {child.pid for child in psutil.Process().children()}
    async with open_http_session() as session:
        urls = masters or [server.url if server else "http://127.0.0.1:9"]
        uploads = ChunkUploader(session, MasterDirectory(urls), SECRET, random.Random(1))
        settings = {"processes": 2, "search_path": [entry for entry in sys.path if entry], **settings}
        executor = AgentExecutor(entries, uploads, directory / "work", **settings)
        await executor.start()
        try:
            yield executor
        finally:
            await executor.close()
    # Only what is its own: a database server of the session starts processes when it likes.
    left = [child for child in psutil.Process().children() if child.pid not in before]
    assert not left, f"left behind: {left} and below them {[child.children(recursive=True) for child in left]}"
    assert not list((directory / "work").iterdir())


def assignment(task_type: str, parameters: Any = None, **fields: Any) -> AssignmentBody:
    execution = next(_executions)
    values = {"timeout_s": 60, "retry": 0, "round": 0, **fields}
    return AssignmentBody(
        task=execution + 1_000_000,
        execution=execution,
        task_type=task_type,
        parameters=msgspec.Raw(json.dumps(parameters or {}).encode()),
        **values,
    )


def result_of(outcome: OutcomeBody) -> Any:
    return json.loads(bytes(outcome.result))


def metrics_of(outcome: OutcomeBody) -> Any:
    return json.loads(bytes(outcome.metrics))


async def until(condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
    """Polls: what happens in another process cannot be waited for in another way."""
    async with asyncio.timeout(within_s):
        while not (value := condition()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        return value


async def cancelled(running: asyncio.Task[OutcomeBody]) -> float:
    """Cancels it; how long it took until nothing of it ran."""
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    return loop.time() - began_at


def pid_in(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text) if text else None


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
