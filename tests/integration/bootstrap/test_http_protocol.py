"""The HTTP protocol of a master over real connections, on both event loops; time passes when a test says so."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn
import uvloop

from crawlfleet.bootstrap.connection_guard import CLOSE_S, ConnectionGuard, ConnectionLimits, Peer, Wait
from crawlfleet.bootstrap.http_protocol import HEAD_FIELDS, UNREAD_BYTES, BoundedHttpProtocol
from crawlfleet.bootstrap.serve import protocol_factory
from crawlfleet.settings.master import MasterSettings
from tests.unit.execution.process_state.test_proxy_pool import own_certificate

PATIENCE_S = 30.0
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
KNOWN = b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: known\r\n\r\n"


Call = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Server:
    """An application that knows a caller by a header, and waits at `/held` until it is let go."""

    def __init__(self, limits: ConnectionLimits, folder: Path | None) -> None:
        self.now = 0.0
        self.guard = ConnectionGuard(limits, lambda: self.now)
        self.trusting: ssl.SSLContext | None = None
        self.release = asyncio.Event()
        self.bodies: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        settings = MasterSettings()
        if folder is not None:
            _, self.trusting = own_certificate(folder / "both.pem")
            settings = MasterSettings(tls_cert=folder / "both.pem", tls_key=folder / "both.pem")
        self.config = uvicorn.Config(
            self.answer,
            interface="asgi3",
            loop="none",
            http=protocol_factory(settings, self.guard),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
        )
        self.port = 0

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        connection: Peer = scope["state"]["connection"]
        if b"authorization" in headers:
            connection.identify()
        if scope["path"] == "/held":
            await self.release.wait()
        if scope["path"] == "/body":
            while (message := await receive())["type"] == "http.request":
                self.bodies.append(message["body"])
                if not message["more_body"]:
                    break
        size = int(headers.get(b"x-size", b"2"))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"x" * size})

    async def call(self, sent: bytes = b"", *, is_plain: bool = False) -> Call:
        trusting = None if is_plain else self.trusting
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trusting)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    def half_heads(self) -> int:
        """Connections of which a part of a head has arrived."""
        protocols = [getattr(peer.on_expiry, "__self__", None) for peer in self.guard._watched]
        return sum(isinstance(one, BoundedHttpProtocol) and one._head_bytes > 0 for one in protocols)

    def unsent_bytes(self) -> list[int]:
        """What is not sent of answers that were written to their end."""
        closing = [cast("asyncio.Transport", peer.transport) for peer in self.guard._watched if peer.wait is Wait.CLOSE]
        return [one.get_write_buffer_size() for one in closing]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.guard.sweep()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - the other side is a socket
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(
    limits: ConnectionLimits, folder: Path | None = None, site: Server | None = None
) -> AsyncIterator[Server]:
    site = site or Server(limits, folder)
    listener = socket.create_server(("127.0.0.1", 0))
    site.port = listener.getsockname()[1]
    site.config.load()
    server = uvicorn.Server(site.config)
    server.lifespan = site.config.lifespan_class(site.config)
    await server.startup(sockets=[listener])
    try:
        yield site
    finally:
        for writer in site.writers:
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in site.writers), return_exceptions=True)
        for one in server.servers:
            one.close()
        for connection in list(server.server_state.connections):
            connection.shutdown()
        listener.close()


Scenario = Callable[[], Awaitable[None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    def run(scenario: Scenario) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await scenario()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(bounded())

    return run


async def status(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    body = await reader.readexactly(length)
    found = int(head.split()[1])
    if found != 200:
        assert b"application/problem+json" in head
        assert json.loads(body)["status"] == found
    return found


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 5_000, 431),
        (b"GET /" + b"a" * 5_000, 431),
        (b"\r\n" * 3_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (HEAD_FIELDS + 2), 431),
        (b"no http\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 3_000 + b"\r\n\r\n", 200),
        (GET, 200),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * HEAD_FIELDS + b"\r\n", 200),
    ],
)
def test_a_head_has_its_bounds(run: Callable[[Scenario], None], sent: bytes, expected: int) -> None:
    async def scenario() -> None:
        async with serving(ConnectionLimits(head_bytes=4_096)) as site:
            for piece in (len(sent), 100):
                reader, writer = await site.call()
                for start in range(0, len(sent), piece):
                    writer.write(sent[start : start + piece])
                    await asyncio.sleep(0)
                assert await status(reader) == expected
                writer.close()

    run(scenario)


def test_a_body_may_be_longer_than_a_head(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        body = b"b" * 300_000
        head = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
        async with serving(ConnectionLimits(head_bytes=4_096)) as site:
            reader, _ = await site.call(head + body + GET)
            assert [await status(reader), await status(reader)] == [200, 200]
            assert b"".join(site.bodies) == body

    run(scenario)


def test_trailers_are_bounded_and_are_no_headers(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        head = b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
        async with serving(ConnectionLimits(head_bytes=4_096)) as site:
            reader, _ = await site.call(head + b"Authorization: known\r\n\r\n")
            assert await status(reader) == 200
            assert site.guard.unidentified == 1
            reader, _ = await site.call(head + b"X: " + b"a" * 9_000)
            assert await is_closed(reader)

    run(scenario)


def test_a_head_that_does_not_end_in_time_is_answered(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(ConnectionLimits(head_timeout_s=5)) as site:
            half, half_writer = await site.call(GET[:20])
            empty, _ = await site.call()
            again, again_writer = await site.call(KNOWN)
            assert await status(again) == 200
            again_writer.write(GET[:20])
            await site.until(lambda: site.half_heads() == 2)
            site.pass_time(4.9)
            half_writer.write(GET[20:21])
            site.pass_time(0.2)
            assert (await status(half), await is_closed(half)) == (408, True)
            assert await is_closed(empty)
            assert (await status(again), await is_closed(again)) == (408, True)
            site.pass_time(2.0)
            await site.until(lambda: not site.guard._watched)
            assert site.guard.unidentified == 0

    run(scenario)


def test_known_callers_are_not_counted_and_wait_as_long_as_they_like(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        limits = ConnectionLimits(unidentified=3, unidentified_per_address=3)
        async with serving(limits) as site:
            known = [await site.call(KNOWN.replace(b"GET /", b"GET /held")) for _ in range(10)]
            await site.until(lambda: len(known) == 10 and site.guard.unidentified == 0)
            strangers = [await site.call(GET[:20]) for _ in range(6)]
            for reader, _ in strangers[:3]:
                assert await is_closed(reader)
            site.pass_time(3_600)
            site.release.set()
            assert [await status(reader) for reader, _ in known] == [200] * 10

    run(scenario)


def test_an_answer_that_is_not_read_is_given_up_and_one_that_is_read_slowly_is_not(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario() -> None:
        size = 20_000_000
        sent = b"GET / HTTP/1.1\r\nHost: a\r\nX-Size: %d\r\nConnection: close\r\n\r\n" % size
        async with serving(ConnectionLimits()) as site:
            reader, _ = await site.call(sent)
            await site.until(lambda: site.unsent_bytes() != [])
            await reader.readuntil(b"\r\n\r\n")
            taken = 0
            for _ in range(5):
                (before,) = site.unsent_bytes()
                while site.unsent_bytes() == [before]:
                    taken += len(await reader.read(65_536))
                site.pass_time(CLOSE_S)
            assert taken + len(await reader.readexactly(size - taken)) == size
            unread, _ = await site.call(sent)
            await site.until(lambda: site.unsent_bytes() != [])
            # What the system's buffers took meanwhile counts as read: after that, nothing is.
            async with asyncio.timeout(PATIENCE_S):
                while site.unsent_bytes():
                    site.pass_time(CLOSE_S)
                    await asyncio.sleep(0.01)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await unread.readexactly(size)

    run(scenario)


def test_a_body_that_nobody_reads_ends_with_its_answer(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"
        async with serving(ConnectionLimits()) as site:
            dripping, _ = await site.call(head + b"a")
            assert await status(dripping) == 200
            site.pass_time(11)
            assert await is_closed(dripping)
            flood, writer = await site.call(head)
            assert await status(flood) == 200
            with pytest.raises(ConnectionError):
                for _ in range(UNREAD_BYTES // 10_000 + 10_000):
                    writer.write(b"a" * 10_000)
                    await writer.drain()
            short, writer = await site.call(head.replace(b"100000000", b"10") + b"0123")
            assert await status(short) == 200
            writer.write(b"456789" + GET)
            assert await status(short) == 200, "the connection goes on after a short rest"

    run(scenario)


def test_pipelined_requests_are_bounded(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(ConnectionLimits()) as site:
            reader, _ = await site.call(GET * 10)
            assert [await status(reader) for _ in range(10)] == [200] * 10
            reader, _ = await site.call(GET.replace(b"GET /", b"GET /held") + GET * 1_000)
            assert await is_closed(reader)

    run(scenario)


def test_an_address_outside_the_networks_is_told_once(run: Callable[[Scenario], None]) -> None:
    async def scenario() -> None:
        async with serving(ConnectionLimits(networks=(ip_network("10.0.0.0/8"),))) as site:
            reader, _ = await site.call(GET)
            assert (await status(reader), await is_closed(reader)) == (403, True)

    run(scenario)


def test_a_tls_handshake_is_counted_and_has_its_time(run: Callable[[Scenario], None], tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(ConnectionLimits(unidentified=3, head_timeout_s=5), tmp_path) as site:
            reader, writer = await site.call(KNOWN)
            assert await status(reader) == 200
            silent = [await site.call(is_plain=True) for _ in range(5)]
            await site.until(lambda: site.guard.unidentified == 3)
            for one, _ in silent[:2]:
                assert await is_closed(one)
            stranger, _ = await site.call(GET)
            assert await status(stranger) == 200
            site.pass_time(5.1)
            for one, _ in silent:
                assert await is_closed(one)
            writer.write(GET)
            assert await status(reader) == 200, "the known caller is still there"
            half, _ = await site.call(GET[:20])
            await site.until(lambda: site.half_heads() == 1)
            site.pass_time(5.1)
            assert await status(half) == 408

    run(scenario)
