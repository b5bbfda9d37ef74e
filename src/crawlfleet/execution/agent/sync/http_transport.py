"""A master reached over HTTP."""

from __future__ import annotations

from typing import TypeVar

import aiohttp
import msgspec

from crawlfleet.errors import Unavailable
from crawlfleet.execution.master_calls.http_calls import call, checked_address
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp

ANSWER_S = 5.0
"""Beyond the time a call may be parked. The agent itself gives up earlier; this is the end of the connection."""
OPEN_S = 10.0

Down = TypeVar("Down", OpenDown, SyncDown)


class HttpTransport:
    """Implements `ports.transport.MasterTransport`."""

    def __init__(self, url: str, node: NodeId, secret: str, session: aiohttp.ClientSession) -> None:
        self.url = checked_address(url)
        self._node = f"{self.url}/api/v1/nodes/{node_text(node)}"
        self._secret = secret
        self._session = session
        self._encode = msgspec.json.Encoder().encode

    async def open(self, up: OpenUp) -> OpenDown:
        return await self._call("open", up, OPEN_S, OpenDown)

    async def sync(self, up: SyncUp) -> SyncDown:
        return await self._call("sync", up, up.wait_ms / 1000 + ANSWER_S, SyncDown)

    async def _call(self, verb: str, up: OpenUp | SyncUp, within_s: float, kind: type[Down]) -> Down:
        answer = await call(
            self._session, "POST", f"{self._node}:{verb}", bearer=self._secret, body=self._encode(up), within_s=within_s
        )
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise Unavailable(f"{self.url}: an answer that makes no sense: {exc}") from exc
