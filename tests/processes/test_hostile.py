"""Hostile calls to a running installation: guessed tokens, other nodes' business, paths and bodies made to hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import pytest_asyncio
import zstandard

from crawlfleet.execution.agent.identity import Identity
from tests.processes.fleet import Fleet, echo, fleet, sleep

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

LINES = {"Content-Type": "application/x-ndjson"}
PACKED = {**LINES, "Content-Encoding": "zstd"}
ELSEWHERE = "127.0.0.77"
"""Another address of this machine, so that what it is refused is refused to nobody else."""


class Running(NamedTuple):
    """A task on one of the two nodes."""

    fleet: Fleet
    task: str
    execution: str
    own: Identity
    other: Identity

    def path(self, number: str = "0", *, execution: str | None = None, task: str | None = None) -> str:
        return f"/api/v1/executions/{execution or self.execution}/items/{number}?task={task or self.task}"

    def files(self) -> list[Path]:
        return sorted(file for file in self.fleet.folder.rglob("*") if file.suffix in {".zst", ".part"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def held(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with fleet(tmp_path_factory.mktemp("fleet")) as running:
        await running.start(workers=2)
        (task,) = await running.submit([sleep(300)])
        await running.until_status([task], "processing")
        (execution,) = await running.client.executions(task)
        both = [running.identity(worker.name) for worker in running.workers]
        own, other = sorted(both, key=lambda one: one.node_id != execution.node_id)
        yield Running(running, task, execution.id, own, other)
        assert (await running.client.get(task)).status == "processing", "nothing of it touched the task"
        await running.client.cancel(task)
        await running.until_final(1)
        assert await running.verdict() == []


async def test_guessed_tokens_are_refused_then_made_to_wait_and_written_down(held: Running) -> None:
    running = held.fleet
    for number in range(20):
        answer = await running.call("GET", "/api/v1/tasks", token=f"{number:064x}", address=ELSEWHERE)
        assert answer.problem == (401, "not_authenticated", "Authorization")
    for token in ("f" * 64, running.admin):
        answer = await running.call("GET", "/api/v1/tasks", token=token, address=ELSEWHERE)
        assert answer.problem[:2] == (429, "too_many_attempts")
        assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert (await running.call("GET", "/api/v1/tasks")).status == 200, "others are not held up"
    (entry,) = [entry for entry in await running.client.audit() if entry.action == "token.refused"]
    assert (entry.address, entry.role, entry.details) == (ELSEWHERE, None, {"attempts": 20})


async def test_without_a_token_nothing_is_told(held: Running) -> None:
    for path in ("/api/v1/tasks", f"/api/v1/tasks/{held.task}", "/api/v1/nothing", held.path()):
        answer = await held.fleet.call("GET", path, token="")
        assert answer.problem == (401, "not_authenticated", "Authorization")


async def test_a_node_acts_only_for_itself(held: Running) -> None:
    running = held.fleet
    for verb, message in [("open", [1]), ("sync", [1]), ("heartbeat", {})]:
        path = f"/api/v1/nodes/{held.own.node_id}:{verb}"
        answer = await running.call("POST", path, json=message, token=held.other.secret)
        assert answer.problem == (403, "not_allowed", "Authorization")
    noted = {entry.action for entry in await running.client.audit() if entry.node_id == held.other.node_id}
    assert {"node.open.refused", "node.sync.refused", "node.heartbeat.refused"} <= noted
    for method, path, body in [
        ("GET", f"/api/v1/tasks/{held.task}", None),
        ("POST", "/api/v1/tasks", echo(1)),
        ("POST", f"/api/v1/tasks/{held.task}:cancel", None),
        ("DELETE", f"/api/v1/nodes/{held.own.node_id}", None),
    ]:
        answer = await running.call(method, path, json=body, token=held.own.secret)
        assert answer.problem == (403, "not_allowed", "Authorization"), path
    assert [node.status for node in await running.client.nodes()] == ["online", "online"]


async def test_another_nodes_execution_takes_no_chunk(held: Running) -> None:
    answer = await held.fleet.call("PUT", held.path(), token=held.other.secret, data=b"{}\n", headers=LINES)
    assert answer.problem == (409, "stale_execution", "execution_id")
    answer = await held.fleet.call("PUT", held.path(), data=b"{}\n", headers=LINES)
    assert answer.problem == (403, "not_allowed", "Authorization"), "nor does it from a person"
    assert held.files() == []
    assert "execution.refused" in {entry.action for entry in await held.fleet.client.audit()}


async def test_paths_lead_nowhere_else(held: Running) -> None:
    paths = [
        "/api/v1/executions/../../../../etc/items/0",
        f"/api/v1/executions/..%2F..%2Fetc/items/0?task={held.task}",
        held.path("..%2F..%2F..%2Fescaped"),
        held.path("%2e%2e"),
        held.path("-1"),
        held.path("0%00"),
        held.path("0x1"),
        held.path("9" * 30),
        held.path("%EF%BC%91"),
        held.path(task=f"../{held.task}"),
        held.path(task="..%2F..%2Fx"),
        held.path(execution="exec-0%2e%2e"),
        held.path(execution="exec-ffffffffffffffff"),
        held.path(task="task-0000000000000001"),
        held.path().replace("/items/", "/secrets/"),
        held.path().partition("?")[0],
    ]
    for path in paths:
        answer = await held.fleet.call("PUT", path, token=held.own.secret, data=b"{}\n", headers=LINES)
        assert answer.problem[0] in (404, 409, 422), path
    assert held.files() == []
    for path in ("/..%2F..%2Fadmin.token", "/docs/..%2Fadmin.token", "/../admin.token", "/static/../../admin.token"):
        answer = await held.fleet.call("GET", path)
        assert answer.status == 404
        assert held.fleet.admin.encode() not in answer.body


async def test_a_body_that_grows_when_it_is_unpacked_is_refused_before_it_has_grown(held: Running) -> None:
    bomb = zstandard.ZstdCompressor(level=1).compress(b'{"a":"' + b"x" * (500 << 20) + b'"}\n')
    assert len(bomb) < 1 << 20
    master = psutil.Process(held.fleet.master.pid)
    before = master.memory_info().rss
    for _ in range(3):
        answer = await held.fleet.call("PUT", held.path(), token=held.own.secret, data=bomb, headers=PACKED)
        assert answer.problem == (413, "too_large", "body")
    assert master.memory_info().rss - before < 100 << 20
    for body, headers, status in [(b"no frame", PACKED, 400), (b"{}", {**LINES, "Content-Encoding": "gzip"}, 415)]:
        answer = await held.fleet.call("PUT", held.path(), token=held.own.secret, data=body, headers=headers)
        assert answer.problem[0] == status
    assert held.files() == []


async def test_what_is_in_order_is_taken(held: Running) -> None:
    """The refusals above are refusals of something that works."""
    answer = await held.fleet.call("PUT", held.path(), token=held.own.secret, data=b'{"a":1}\n', headers=LINES)
    assert answer.status == 204
    assert len(held.files()) == 1
