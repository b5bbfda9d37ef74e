"""A master behind a real HTTP server, spoken to by a real client; and a node that does as the parameters say."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import uvicorn
from yarl import URL

from crawlfleet.api.app import create_app
from crawlfleet.api.http.settings import ApiSettings
from crawlfleet.bootstrap.master import Master, MasterOptions
from crawlfleet.bootstrap.services import build_services
from crawlfleet.bootstrap.stores import open_store
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.execution.executors.registry import builtin_checks
from crawlfleet.model.execution import End
from crawlfleet.model.ids import NodeId
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.principal import TOKEN_ROLES, AuditEntry
from crawlfleet.model.status import ErrorClass
from crawlfleet.results.chunk_folder import FolderChunks
from crawlfleet.store.engine.migrate import migrate_sqlite
from crawlfleet.wire.sync import AssignmentBody, OpenUp, OutcomeBody, StartBody, SyncUp

PATIENCE_S = 30.0
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "echo": {"type": "object"},
    "web_crawl": {
        "type": "object",
        "properties": {"url": {"type": "string", "pattern": "^https?://[^/]+"}, "depth": {"type": "integer"}},
    },
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def told(self) -> tuple[int, str, str | None]:
        """Of an error: status, code and field."""
        assert self.headers["Content-Type"] == "application/problem+json", (self.status, self.content)
        problem = self.json
        assert problem["status"] == self.status
        assert problem["title"]
        assert problem["detail"]
        return self.status, problem["code"], problem.get("field")


class Site:
    """The API as people meet it."""

    def __init__(self, master: Master, url: str, tokens: Mapping[str, str], session: aiohttp.ClientSession) -> None:
        self.master = master
        self.store = master.store
        self.url = url
        self.tokens = tokens
        self._session = session

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str | None = "admin",
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | BytesIO | AsyncIterator[bytes] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if token is None and role is not None:
            token = self.tokens[role]
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        if body is not None:
            data = json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        if isinstance(data, bytes):
            data = BytesIO(data)
        # As it is written: the client must not mend what is to be refused.
        url = URL(self.url + path, encoded=True)
        async with self._session.request(method, url, data=data, headers=sent) as response:
            return Answer(response.status, response.headers, await response.read())

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.send("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return await self.send("POST", path, body, **more)

    async def submit(self, **fields: Any) -> str:
        """The id of a new task."""
        answer = await self.post("/api/v1/tasks", {"task_type": "echo", **fields})
        assert answer.status == 201, answer.content
        found: str = answer.json["id"]
        return found

    async def task(self, task: str) -> Any:
        answer = await self.get(f"/api/v1/tasks/{task}")
        assert answer.status == 200, answer.content
        return answer.json

    async def until(self, is_true: Callable[[], Awaitable[bool]]) -> None:
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await is_true():
            assert asyncio.get_running_loop().time() < deadline, await self.store.task_totals()
            await asyncio.sleep(0.02)

    async def until_status(self, task: str, *statuses: str) -> Any:
        async def has() -> bool:
            return (await self.task(task))["status"] in statuses

        await self.until(has)
        return await self.task(task)

    async def pause(self, queue: str) -> Answer:
        """Paused, and known to be by whoever places tasks."""
        answer = await self.post(f"/api/v1/queues/{queue}:pause", role="operator")

        async def is_known() -> bool:
            return queue in self.master.dispatcher.view.paused_queues

        await self.until(is_known)
        return answer

    async def changes(self) -> list[AuditEntry]:
        """What was noted, oldest first; without submits, which come a moment later and for many calls at once."""
        entries = await self.master.audit.list_entries(1_000)
        return [one for one in reversed(entries) if one.action != "task.submit"]

    async def audited(self) -> list[tuple[str, str, str]]:
        """Role, action and target of each."""
        return [(one.role.word if one.role else "", one.action, one.target) for one in await self.changes()]


class Worker:
    """A node. `{"fail": text}` fails, with `permanent` for good; `{"hold": true}` runs until it is recalled."""

    def __init__(self, master: Master, node: NodeId, secret: str) -> None:
        self.node = node
        self._master = master
        self._secret = secret

    @classmethod
    async def join(cls, master: Master, **fields: Any) -> Worker:
        described = {"name": "worker", "slots": 10, "task_types": tuple(SCHEMAS), **fields}
        joined = await master.register.register_node(NodeDescription(**described), f"join {described['name']}")
        return cls(master, joined.node, joined.secret)

    async def run(self) -> None:
        opened = await self._master.open_session.open_session(OpenUp(self.node, self._secret, [], 10, list(SCHEMAS)))
        held: dict[int, AssignmentBody] = {}
        started: list[StartBody] = []
        outcomes: list[OutcomeBody] = []
        number = 0
        while True:
            number += 1
            up = SyncUp(self.node, opened.session, number, 50, list(held), started, outcomes, slots=10)
            down = await self._master.sync.sync(up)
            started, outcomes = [], []
            for one in down.assignments:
                if one.execution not in held:
                    held[one.execution] = one
                    started.append(StartBody(one.task, one.execution, 0))
            recalled = {recall.execution for recall in down.recalls}
            for execution, one in list(held.items()):
                if outcome := _outcome(one, execution in recalled):
                    outcomes.append(outcome)
                    del held[execution]
            started = [one for one in started if one.execution in held]


def _outcome(one: AssignmentBody, is_recalled: bool) -> OutcomeBody | None:
    said = msgspec.json.decode(one.parameters)
    if is_recalled:
        return OutcomeBody(one.task, one.execution, int(End.STOPPED))
    if "fail" in said:
        return OutcomeBody(
            one.task, one.execution, int(End.FAILED), int(ErrorClass.HTTP), said["fail"], bool(said.get("permanent"))
        )
    if said.get("hold"):
        return None
    metrics = msgspec.Raw(b'{"pages_crawled":15}')
    return OutcomeBody(one.task, one.execution, int(End.COMPLETED), result=one.parameters, metrics=metrics)


@asynccontextmanager
async def working(site: Site, **fields: Any) -> AsyncIterator[Worker]:
    worker = await Worker.join(site.master, **fields)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def serving(app: Any, config: uvicorn.Config | None = None) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    config = config or uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=2,
    )
    # Not `serve`, which takes the process's signals, and looks only ten times a second whether it should end.
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        for one in server.servers:
            one.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        listener.close()


@cache
def migrated() -> bytes:
    """A database without anything in it, made once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite3"
        migrate_sqlite(path)
        return path.read_bytes()


@asynccontextmanager
async def open_site(folder: Path, settings: ApiSettings | None = None) -> AsyncIterator[Site]:
    (folder / "fleet.sqlite3").write_bytes(migrated())
    store = await open_store(f"sqlite:///{folder / 'fleet.sqlite3'}")
    master = await Master.start(
        "master",
        store,
        MemoryBroker(),
        SCHEMAS,
        chunks=FolderChunks(folder / "results"),
        options=MasterOptions(checks=builtin_checks()),
    )
    loops = asyncio.create_task(master.run())
    try:
        tokens = {
            role.word: (await master.tokens.create_token(role, name=f"the {role.word}", by="tests")).secret
            for role in TOKEN_ROLES
        }
        await master.lead.wait_for_term()
        async with serving(create_app(build_services(master), settings)) as url, aiohttp.ClientSession() as session:
            yield Site(master, url, tokens, session)
    finally:
        loops.cancel()
        await asyncio.wait([loops])
        await store.close()
