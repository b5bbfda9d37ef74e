"""Nodes that have nothing to do: real sessions and syncs over HTTP, without a process each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Self

import aiohttp
import msgspec

from crawlfleet.model.ids import parse_id
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp, SyncVerdict

WAIT_MS = 2_000
_JOINING = 20


class IdleNodes:
    def __init__(self, urls: Sequence[str], token: str) -> None:
        self._urls = urls
        self._token = token
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        self._syncing: list[asyncio.Task[None]] = []
        self.late_ms: list[float] = []
        """Of each answer: beyond the time that the call asked to be parked."""
        self.failed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._syncing:
            task.cancel()
        await asyncio.gather(*self._syncing, return_exceptions=True)
        await self._session.close()

    async def join(self, count: int) -> None:
        numbers = iter(range(count))

        async def join_some() -> None:
            for number in numbers:
                await self._join(number)

        await asyncio.gather(*(join_some() for _ in range(_JOINING)))

    async def _join(self, number: int) -> None:
        url = self._urls[number % len(self._urls)]
        body = {"name": f"idle-{number}", "slots": 1, "task_types": {"nothing": {}}}
        raw = await self._call(f"{url}/api/v1/nodes:register", self._token, msgspec.json.encode(body))
        answer: dict[str, Any] = msgspec.json.decode(raw)
        name, secret = answer["node_id"], answer["secret"]
        node = parse_id(name, "node", field="node")
        up = msgspec.json.encode(OpenUp(node, secret, slots=1, task_types=["nothing"]))
        down = msgspec.json.decode(await self._call(f"{url}/api/v1/nodes/{name}:open", secret, up), type=OpenDown)
        sync = self._sync(f"{url}/api/v1/nodes/{name}:sync", secret, node, down.session)
        self._syncing.append(asyncio.create_task(sync, name=name))

    async def _sync(self, url: str, secret: str, node: int, session: int) -> None:
        number = version = mark = 0
        while True:
            number += 1
            up = SyncUp(node, session, number, WAIT_MS, [], slots=1, config_version=version, config_mark=mark)
            began = time.perf_counter()
            try:
                down = msgspec.json.decode(await self._call(url, secret, msgspec.json.encode(up)), type=SyncDown)
            except (aiohttp.ClientError, RuntimeError):
                self.failed += 1
                await asyncio.sleep(0.5)
                continue
            if down.verdict is not SyncVerdict.OK:
                self.failed += 1
            if down.config is not None:
                version, mark = down.config.version, down.config.mark
            else:
                self.late_ms.append((time.perf_counter() - began) * 1_000 - WAIT_MS)

    async def _call(self, url: str, secret: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        async with self._session.post(url, data=body, headers=headers) as response:
            if response.status >= 300:
                raise RuntimeError(await response.text())
            return await response.read()
