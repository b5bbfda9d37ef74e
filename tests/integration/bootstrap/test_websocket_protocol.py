"""The WebSocket protocol of a master over real connections, on both event loops, with and without TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import ClientConnection, connect

from crawlfleet.bootstrap.connection_guard import ConnectionLimits, Peer
from crawlfleet.bootstrap.http_protocol import WEBSOCKET_PATH
from tests.integration.bootstrap.test_http_protocol import KNOWN, Scenario, Server, run, serving, status

__all__ = ("run",)

HEAD = (
    b"GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: known\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
OPEN = HEAD % WEBSOCKET_PATH


class SocketServer(Server):
    """An application that echoes to callers with a header, and leaves others waiting before it accepts them."""

    def __init__(self, limits: ConnectionLimits, folder: Path | None) -> None:
        super().__init__(limits, folder)
        self.peers: list[Peer] = []
        self.ended = 0
        self.abandon: Any = None

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await super().answer(scope, receive, send)
            return
        self.peers.append(scope["state"]["connection"])
        self.abandon = scope["state"]["abandon_socket"]
        if b"authorization" in dict(scope["headers"]):
            self.peers[-1].identify()
            await send({"type": "websocket.accept"})
        while (message := await receive())["type"] != "websocket.disconnect":
            if message["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
        self.ended += 1

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ClientConnection]:
        scheme = "ws" if self.trusting is None else "wss"
        url = f"{scheme}://127.0.0.1:{self.port}{WEBSOCKET_PATH.decode()}"
        headers = {"Authorization": "known"}
        options = {} if self.trusting is None else {"ssl": self.trusting, "server_hostname": "127.0.0.1"}
        async with connect(url, additional_headers=headers, proxy=None, **options) as opened:  # type: ignore[arg-type]
            yield opened


@asynccontextmanager
async def serving_sockets(limits: ConnectionLimits, folder: Path | None = None) -> AsyncIterator[SocketServer]:
    site = SocketServer(limits, folder)
    async with serving(limits, folder, site):
        yield site


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param else None


def test_an_identified_caller_is_no_longer_counted(run: Callable[[Scenario], None], folder: Path | None) -> None:
    async def scenario() -> None:
        async with serving_sockets(ConnectionLimits(), folder) as site:
            async with site.connected() as opened:
                await opened.send("hello")
                assert await opened.recv() == "hello"
                assert (site.guard.unidentified, site.peers[0].is_identified) == (0, True)
                # No deadline of HTTP holds for it.
                site.pass_time(10_000)
                await opened.send("again")
                assert await opened.recv() == "again"
            await site.until(lambda: site.ended == 1)
            assert site.peers[0].is_gone

    run(scenario)


def test_a_caller_that_is_not_identified_makes_way_for_others(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving_sockets(ConnectionLimits(unidentified=1)) as site:
            reader, _ = await site.call(OPEN.replace(b"Authorization: known\r\n", b""))
            await site.until(lambda: len(site.peers) == 1)
            assert site.guard.unidentified == 1
            other, _ = await site.call(KNOWN)
            assert await status(other) == 200
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await reader.readexactly(1)
            await site.until(lambda: site.ended == 1)

    run(scenario)


def test_a_caller_that_does_not_read_is_closed_with_the_reason(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving_sockets(ConnectionLimits()) as site, site.connected() as opened:
            await opened.send("hello")
            assert await opened.recv() == "hello"
            site.abandon(1013, "read too slowly")
            with pytest.raises(websockets.ConnectionClosed):
                await opened.recv()
            assert (opened.close_code, opened.close_reason) == (1013, "read too slowly")

    run(scenario)


@pytest.mark.parametrize(
    "head",
    [
        HEAD % b"/elsewhere",
        OPEN.replace(b"GET", b"POST", 1),
        OPEN.replace(b"Host: a\r\n", b"Host: a\r\nContent-Length: 2\r\n") + b"ab",
        OPEN.replace(b"Upgrade: websocket", b"Upgrade: h2c"),
    ],
    ids=["elsewhere", "post", "with a body", "another protocol"],
)
def test_other_requests_stay_ordinary(run: Callable[[Scenario], None], head: bytes) -> None:
    async def scenario() -> None:
        async with serving_sockets(ConnectionLimits()) as site:
            reader, _ = await site.call(head)
            assert await status(reader) == 200
            assert not site.peers

    run(scenario)


def test_a_handshake_behind_a_request_under_way_is_an_ordinary_request(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving_sockets(ConnectionLimits()) as site:
            reader, _ = await site.call(KNOWN.replace(b"GET /", b"GET /held") + OPEN)
            await asyncio.sleep(0)
            site.release.set()
            assert await status(reader) == 200
            assert await status(reader) == 200
            assert not site.peers

    run(scenario)
