"""What a master's answers mean to an agent; none of them is waited for or read without end."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from crawlfleet.errors import (
    ConfigError,
    Conflict,
    CrawlfleetError,
    InvalidInput,
    NotAllowed,
    NotFound,
    SessionEnded,
    Unavailable,
)
from crawlfleet.execution.agent.sync.http_transport import HttpTransport
from crawlfleet.execution.master_calls import http_calls
from crawlfleet.execution.master_calls.http_calls import (
    StaleExecutionError,
    call_master,
    normalise_master_url,
    open_http_session,
)
from crawlfleet.ports.transport import MessageTooLarge
from crawlfleet.wire.sync import OpenDown, OpenUp, SyncDown, SyncUp, SyncVerdict

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_open_and_sync_are_arrays_to_the_nodes_own_path() -> None:
    seen: list[tuple[str, str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, request.headers["Authorization"]))
        if request.path.endswith(":open"):
            up = msgspec.json.decode(await request.read(), type=OpenUp)
            return web.Response(body=msgspec.json.encode(OpenDown(up.after + 1, 9_000, 3_000)))
        up_sync = msgspec.json.decode(await request.read(), type=SyncUp)
        return web.Response(body=msgspec.json.encode(SyncDown(SyncVerdict.OK, stops=up_sync.held)))

    async with answering(handler) as url, open_http_session() as session:
        transport = HttpTransport(url + "/", 0x2A, "secret", session)
        assert (await transport.open(OpenUp(0x2A, "secret", after=4))).session == 5
        assert (await transport.sync(SyncUp(0x2A, 5, 1, 0, [7, 8]))).stops == [7, 8]
    node = "/api/v1/nodes/node-000000000000002a"
    assert seen == [("POST", f"{node}:open", "Bearer secret"), ("POST", f"{node}:sync", "Bearer secret")]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "not_authenticated", NotAllowed),
        (403, "not_allowed", NotAllowed),
        (404, "not_found", NotFound),
        (403, "address_not_allowed", Unavailable),
        (409, "session_ended", SessionEnded),
        (409, "stale_execution", StaleExecutionError),
        (409, "other", Conflict),
        (422, "invalid_input", InvalidInput),
        (400, "malformed", InvalidInput),
        (413, "too_large", MessageTooLarge),
        (429, "over_limit", Unavailable),
        (500, "internal", Unavailable),
        (503, "unavailable", Unavailable),
    ],
)
async def test_a_refusal_is_told_in_the_masters_words(status: int, code: str, kind: type[CrawlfleetError]) -> None:
    async def handler(_request: web.Request) -> web.Response:
        problem = {"type": f"urn:crawlfleet:error:{code}", "detail": "because", "code": code, "field": "slots"}
        return web.json_response(problem, status=status, content_type="application/problem+json")

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(kind) as raised:
            await call_master(session, "POST", url, bearer="x", body=b"{}", within_s=5)
        assert type(raised.value) is kind
        assert "because" in str(raised.value)


@pytest.mark.parametrize("status", [301, 302, 400, 401, 403, 404, 405, 409, 410, 422, 451, 500, 502])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>not here</html>",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"detail":"not_found"}',
        b"[" * 10_000,
        b'{"type":"about:blank","title":"Not Found","status":404,"code":"not_found","detail":"of another API"}',
    ],
)
async def test_what_no_master_says_is_no_answer(status: int, body: bytes) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, headers={"Location": "/elsewhere"})

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(Unavailable, match="is there another server"):
            await call_master(session, "POST", url, bearer="x", body=b"{}", within_s=5)


async def test_a_message_that_a_proxy_finds_too_large_is_told_apart() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=413, text="<html>Request Entity Too Large</html>", content_type="text/html")

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(MessageTooLarge) as raised:
            await call_master(session, "POST", url, bearer="x", body=b"{}", within_s=5)
        assert not raised.value.is_from_master


async def test_a_page_of_html_is_not_read() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="[0]", content_type="text/html")

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(Unavailable, match="a page of HTML"):
            await HttpTransport(url, 1, "s", session).sync(SyncUp(1, 1, 1, 0, []))


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b"<html>", b"\xff\xfe", b'["x"]'])
async def test_an_answer_that_makes_no_sense_is_no_answer(body: bytes) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=body)

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(Unavailable):
            await HttpTransport(url, 1, "s", session).sync(SyncUp(1, 1, 1, 0, []))


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(http_calls, "MAX_ANSWER_BYTES", 1 << 20)

    async def handler(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(status=status)
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 65_536)
        except ConnectionError:
            return answer

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(Unavailable, match="more than"):
            await call_master(session, "POST", url, bearer="x", body=b"", within_s=10)


async def test_a_master_that_does_not_answer_is_not_waited_for() -> None:
    released = asyncio.Event()

    async def handler(_request: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    async with answering(handler) as url, open_http_session() as session:
        with pytest.raises(Unavailable):
            await call_master(session, "POST", url, bearer="x", body=b"", within_s=0.05)
        released.set()
    async with open_http_session() as session:
        with pytest.raises(Unavailable):
            await call_master(session, "POST", "http://127.0.0.1:9/", bearer="x", body=b"", within_s=5)
        with pytest.raises(Unavailable):
            await call_master(session, "POST", "http://no-such-host.invalid/", bearer="x", body=b"", within_s=5)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
async def test_a_ca_file_is_what_is_trusted(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=master", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = await asyncio.create_subprocess_exec(
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        *subject,
        "-keyout",
        str(key),
        "-out",
        str(certificate),
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert await made.wait() == 0
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(body=b"heard")

    async with answering(handler, context) as url:
        assert url.startswith("https://")
        async with open_http_session(certificate) as session:
            assert await call_master(session, "POST", url, bearer="x", body=b"", within_s=5) == b"heard"
        async with open_http_session() as session:
            with pytest.raises(Unavailable, match="certificate verify failed"):
                await call_master(session, "POST", url, bearer="x", body=b"", within_s=5)


async def test_a_ca_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for path in (tmp_path / "ca.pem", tmp_path / "gone"):
        with pytest.raises(ConfigError, match="ca_file"):
            open_http_session(path)


@pytest.mark.parametrize("url", ["", "host", "ftp://host", "http://", "//host:80", "http://[::1"])
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match="http://host:port"):
        normalise_master_url(url)
