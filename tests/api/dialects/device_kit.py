"""A device as its program sees the master: it registers, and speaks the device dialect with the key it got."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tests.api.kit import Answer, Site

DEVICES = "/api/distribution/devices"
TASKS = "/api/distribution/tasks"


class Device:
    def __init__(self, site: Site, name: str, key: str, node: str) -> None:
        self.site, self.name, self.key, self.node = site, name, key, node

    @classmethod
    async def register(cls, site: Site, name: str = "dev-1", **fields: Any) -> Device:
        body = {"device_id": name, "task_types": ["echo"], "concurrent_tasks": 5, **fields}
        answer = await site.post(f"{DEVICES}/register", body, role="enrol")
        assert answer.status == 201, answer.content
        return cls(site, name, answer.json["api_key"], answer.json["node_id"])

    async def beat(self, **fields: Any) -> Any:
        answer = await self.send("POST", f"{DEVICES}/{self.name}/heartbeat", fields or None)
        assert answer.status == 200, answer.content
        return answer.json

    async def set_status(self, status: str) -> Any:
        answer = await self.send("PUT", f"{DEVICES}/{self.name}/status", {"status": status})
        assert answer.status == 200, answer.content
        return answer.json

    async def send(self, method: str, path: str, body: Any = None) -> Answer:
        return await self.site.send(method, path, body, token=self.key)

    async def shown(self) -> Any:
        """The device as people see it."""
        listed = (await self.site.get(DEVICES, role="viewer")).json["devices"]
        return next(device for device in listed if device["device_id"] == self.name)

    async def pull(self, **query: Any) -> Any:
        answer = await self.send_pull(**query)
        assert answer.status == 200, answer.content
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.json["tasks"]

    async def send_pull(self, **query: Any) -> Answer:
        parts = {"device_id": self.name, **query}
        return await self.send("GET", f"{TASKS}/pull?" + urlencode(parts, safe=","))

    async def report(self, task: Any, word: str, **fields: Any) -> Answer:
        body = {"status": word, "execution_id": task["execution_id"], **fields}
        return await self.send("PUT", f"{TASKS}/{task['task_id']}/status", body)

    async def run(self, task: Any) -> None:
        """Start the task and complete it."""
        for status in ("running", "completed"):
            answer = await self.report(task, status)
            assert answer.status == 200, answer.content
