"""A small master over real HTTP, for tests of the agent's process: it registers, opens, syncs, and takes chunks."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from crawlfleet.model.ids import node_text
from crawlfleet.wire.sync import (
    AssignmentBody,
    OpenDown,
    OpenUp,
    OutcomeBody,
    RecallBody,
    SyncDown,
    SyncUp,
    SyncVerdict,
)

TOKEN = "e" * 64


class HttpMaster:
    """Keeps nodes by join key, gives what is in `work`, and remembers what it is told."""

    def __init__(self) -> None:
        self.url = ""
        self.nodes: dict[str, int] = {}
        self.secrets: dict[int, str] = {}
        self.registrations: list[dict[str, Any]] = []
        self.work: dict[int, AssignmentBody] = {}
        self.recalls: list[RecallBody] = []
        self.outcomes: dict[int, list[OutcomeBody]] = {}
        self.syncs: list[SyncUp] = []
        self.opens: list[OpenUp] = []
        self.sessions: dict[int, int] = {}
        self.lost_answers = 0
        """So many registrations are done but not answered."""
        self.has_left = asyncio.Event()
        self._newest: dict[int, int] = {}
        self._news = asyncio.Event()

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[HttpMaster]:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/api/v1/nodes:register", self._register)
        app.router.add_post("/api/v1/nodes/{node}:open", self._open)
        app.router.add_post("/api/v1/nodes/{node}:sync", self._sync)
        app.router.add_put("/api/v1/executions/{execution}/{kind}/{number}", self._put)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, auto_decompress=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    def give(self, *assignments: AssignmentBody) -> None:
        self.work |= {one.execution: one for one in assignments}
        self._news.set()

    def recall(self, assignment: AssignmentBody) -> None:
        self.recalls.append(RecallBody(assignment.task, assignment.execution, 1))
        self._news.set()

    def ends(self) -> dict[int, int]:
        """Each execution's end; told twice the same way is told once."""
        assert all(len({outcome.end for outcome in told}) == 1 for told in self.outcomes.values())
        return {execution: told[0].end for execution, told in self.outcomes.items()}

    async def _register(self, request: web.Request) -> web.Response:
        bearer = request.headers["Authorization"].removeprefix("Bearer ")
        said = await request.json()
        is_own = bearer == self.secrets.get(self.nodes.get(said["join_key"], 0))
        if not is_own and bearer != TOKEN:
            return _problem(401, "not_authenticated", "this token is not valid")
        self.registrations.append(said)
        node = self.nodes.setdefault(said["join_key"], len(self.nodes) + 1)
        if not is_own:
            self.secrets[node] = secrets.token_hex(32)
        if self.lost_answers:
            self.lost_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        body = {"node_id": node_text(node), "registration_time": 1.0, "initial_status": "pending"}
        secret = None if is_own else self.secrets[node]
        return web.json_response(body | {"secret": secret, "lease_s": 9.0}, status=200 if is_own else 201)

    async def _open(self, request: web.Request) -> web.Response:
        up = msgspec.json.decode(await request.read(), type=OpenUp)
        if (refusal := self._refusal(request, up.node)) is not None:
            return refusal
        self.opens.append(up)
        self._take(up.outcomes)
        newest = self.sessions.get(up.node, 0)
        if up.after != newest:
            return _answer(OpenDown(newest, 9_000, 3_000, is_open=False))
        self.sessions[up.node] = newest + 1
        return _answer(OpenDown(newest + 1, 9_000, 3_000, [one.execution for one in up.outcomes]))

    async def _sync(self, request: web.Request) -> web.Response:
        up = msgspec.json.decode(await request.read(), type=SyncUp)
        if (refusal := self._refusal(request, up.node)) is not None:
            return refusal
        self.syncs.append(up)
        self._take(up.outcomes)
        if up.is_leaving:
            self.has_left.set()
        # An older call of the node that is parked goes home empty.
        self._newest[up.node] = up.number
        self._news.set()
        if not self._lacking(up) and not self.recalls and not up.outcomes and up.wait_ms:
            self._news.clear()
            try:
                async with asyncio.timeout(up.wait_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                pass
            if self._newest[up.node] != up.number:
                return _answer(SyncDown(SyncVerdict.STALE_NUMBER))
        recalls = [one for one in self.recalls if one.execution in self.work]
        acknowledged = [one.execution for one in up.outcomes]
        return _answer(SyncDown(SyncVerdict.OK, self._lacking(up), recalls, acknowledged=acknowledged))

    async def _put(self, request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=204)

    def _lacking(self, up: SyncUp) -> list[AssignmentBody]:
        held = set(up.held)
        room = 0 if up.is_draining else up.slots - len(held)
        return list(islice((one for one in self.work.values() if one.execution not in held), room))

    def _take(self, outcomes: list[OutcomeBody]) -> None:
        for outcome in outcomes:
            self.work.pop(outcome.execution, None)
            self.outcomes.setdefault(outcome.execution, []).append(outcome)

    def _refusal(self, request: web.Request, node: int) -> web.Response | None:
        if node not in self.secrets:
            return _problem(404, "not_found", "no such node")
        if request.headers["Authorization"] != f"Bearer {self.secrets[node]}":
            return _problem(401, "not_authenticated", "not valid")
        return None


def _answer(body: OpenDown | SyncDown) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def shown(identity: bytes) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(identity)
    return kept


def _problem(status: int, code: str, detail: str) -> web.Response:
    problem = {"type": f"urn:crawlfleet:error:{code}", "status": status, "code": code, "detail": detail}
    return web.json_response(problem, status=status, content_type="application/problem+json")
