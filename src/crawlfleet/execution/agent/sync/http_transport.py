"""HTTP transport: the open and sync calls of a node to one master."""

from __future__ import annotations

from typing import TypeVar

import aiohttp
import msgspec

from crawlfleet.errors import Unavailable
from crawlfleet.execution.master_calls.http_calls import call_master, normalise_master_url
from crawlfleet.model.ids import NodeId, node_text
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp

ANSWER_S = 5.0
"""Timeout of the connection beyond the time of the long poll; the agent itself gives up earlier."""
OPEN_S = 10.0

Down = TypeVar("Down", OpenDown, SyncDown)


class HttpTransport:
    """Implements `ports.transport.MasterTransport`."""

    def __init__(self, url: str, node: NodeId, secret: str, session: aiohttp.ClientSession) -> None:
        self.url = normalise_master_url(url)
        self._node_url = f"{self.url}/api/v1/nodes/{node_text(node)}"
        self._secret = secret
        self._session = session
        self._encode = msgspec.json.Encoder().encode

    async def open(self, up: OpenUp) -> OpenDown:
        return await self._call_master("open", up, OPEN_S, OpenDown)

    async def sync(self, up: SyncUp) -> SyncDown:
        return await self._call_master("sync", up, up.wait_ms / 1000 + ANSWER_S, SyncDown)

    async def _call_master(self, verb: str, request: OpenUp | SyncUp, within_s: float, answer_type: type[Down]) -> Down:
        answer = await call_master(
            self._session,
            "POST",
            f"{self._node_url}:{verb}",
            bearer=self._secret,
            body=self._encode(request),
            within_s=within_s,
        )
        try:
            return msgspec.json.decode(answer, type=answer_type)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise Unavailable(f"{self.url}: an answer that makes no sense: {exc}") from exc
