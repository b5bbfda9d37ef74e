"""The event WebSocket of a master behind its own protocols, and a caller of it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from crawlfleet.api.app import create_app
from crawlfleet.bootstrap.connection_guard import ConnectionGuard, ConnectionLimits
from crawlfleet.bootstrap.serve import uvicorn_config
from crawlfleet.bootstrap.services import build_services
from crawlfleet.settings.master import MasterSettings
from crawlfleet.wire.event_socket import SUBPROTOCOL
from tests.api.kit import PATIENCE_S, Site, serving

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": SUBPROTOCOL,
}


class Socket:
    def __init__(self, raw: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = raw

    async def send(self, op: str, **fields: Any) -> None:
        await self.raw.send_json({"op": op, **fields})

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            message = await self.raw.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, (message, self.raw.close_code)
        return json.loads(message.data)

    async def subscribe(self, name: str = "a", **fields: Any) -> Any:
        await self.send("subscribe", id=name, **fields)
        return await self.next()

    async def events(self, count: int) -> list[Any]:
        return [await self.next() for _ in range(count)]

    async def closed(self) -> tuple[int | None, str]:
        """Code and reason, after whatever still comes."""
        async with asyncio.timeout(PATIENCE_S):
            while (message := await self.raw.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        assert message.type is aiohttp.WSMsgType.CLOSE, message
        return self.raw.close_code, str(message.extra)


class SocketSite:
    """The master of a site behind its own protocols."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.guard = ConnectionGuard(ConnectionLimits(), time.monotonic)
        self.app = create_app(build_services(site.master))
        self.url = ""

    @asynccontextmanager
    async def connected(self, role: str = "viewer", **options: Any) -> AsyncIterator[Socket]:
        headers = {"Authorization": f"Bearer {self.site.tokens[role]}"}
        async with self.site._session.ws_connect(
            f"{self.url}/api/v1/events/ws", protocols=[SUBPROTOCOL], headers=headers, **options
        ) as raw:
            yield Socket(raw)

    async def refused(self, headers: dict[str, str], *, role: str | None = "viewer") -> tuple[int, Any]:
        sent = {} if role is None else {"Authorization": f"Bearer {self.site.tokens[role]}"}
        async with self.site._session.get(f"{self.url}/api/v1/events/ws", headers=sent | headers) as response:
            assert response.headers["Content-Type"] == "application/problem+json"
            return response.status, await response.json(content_type=None)


@asynccontextmanager
async def serving_sockets(site: Site) -> AsyncIterator[SocketSite]:
    opened = SocketSite(site)
    async with serving(opened.app, uvicorn_config(opened.app, MasterSettings(), opened.guard)) as url:
        opened.url = url
        yield opened
