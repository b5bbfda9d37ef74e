"""A node that speaks to the master over HTTP only, step by step, as the test says."""

from __future__ import annotations

from typing import Any

import msgspec

from crawlfleet.model.execution import End
from crawlfleet.model.ids import execution_text, parse_id, task_text
from crawlfleet.wire.sync import AssignmentBody, OpenDown, OpenUp, OutcomeBody, SyncDown, SyncUp
from tests.api.kit import Answer, Site

ECHO = {"echo": {"type": "object"}}


class RemoteNode:
    def __init__(self, site: Site, node: str, secret: str) -> None:
        self.site = site
        self.text = node
        self.id = parse_id(node, "node", field="node")
        self.secret = secret
        self.session = 0
        self.number = 0
        self.held: list[int] = []

    @classmethod
    async def join(cls, site: Site, **fields: Any) -> RemoteNode:
        answer = await site.post("/api/v1/nodes:register", {"name": "n", "slots": 5, "task_types": ECHO, **fields})
        assert answer.status == 201, answer.content
        return cls(site, answer.json["node_id"], answer.json["secret"])

    @classmethod
    async def online(cls, site: Site, **fields: Any) -> RemoteNode:
        node = await cls.join(site, **fields)
        await node.open()
        await node.sync()
        return node

    async def call(self, verb: str, up: Any, **more: Any) -> Answer:
        data = up if isinstance(up, bytes) else msgspec.json.encode(up)
        more = {"token": self.secret, **more}
        return await self.site.post(f"/api/v1/nodes/{self.text}:{verb}", data=data, **more)

    async def open(self) -> OpenDown:
        up = OpenUp(self.id, self.secret, slots=5, task_types=["echo"], after=self.session)
        answer = await self.call("open", up)
        assert answer.status == 200, answer.content
        down = msgspec.json.decode(answer.content, type=OpenDown)
        self.session, self.number = down.session, 0
        return down

    def up(self, wait_ms: int = 0, **fields: Any) -> SyncUp:
        self.number += 1
        return SyncUp(self.id, self.session, self.number, wait_ms, self.held, slots=5, **fields)

    async def sync(self, wait_ms: int = 0, **fields: Any) -> SyncDown:
        answer = await self.call("sync", self.up(wait_ms, **fields))
        assert answer.status == 200, answer.content
        return msgspec.json.decode(answer.content, type=SyncDown)

    async def take(self) -> AssignmentBody:
        """The next task it is given."""
        while not (assignments := (await self.sync(wait_ms=2_000)).assignments):
            pass
        (one,) = assignments
        self.held.append(one.execution)
        return one

    async def take_all(self, count: int) -> list[AssignmentBody]:
        found: list[AssignmentBody] = []
        while len(found) < count:
            given = (await self.sync(wait_ms=2_000)).assignments
            self.held += [one.execution for one in given]
            found += given
        return found

    async def put(self, one: AssignmentBody, kind: str, number: int, data: bytes, **more: Any) -> Answer:
        path = f"/api/v1/executions/{execution_text(one.execution)}/{kind}/{number}?task={task_text(one.task)}"
        return await self.site.send("PUT", path, data=data, **{"token": self.secret, **more})

    async def finish(
        self, one: AssignmentBody, metrics: Any = None, end: End = End.COMPLETED, result: Any = None
    ) -> SyncDown:
        self.held.remove(one.execution)
        said, gave = (msgspec.Raw(msgspec.json.encode(value)) for value in (metrics, result))
        failure = {"error": 5, "message": "as told"} if end is End.FAILED else {}
        outcome = OutcomeBody(one.task, one.execution, int(end), metrics=said, result=gave, **failure)  # type: ignore[arg-type]
        return await self.sync(outcomes=[outcome])
