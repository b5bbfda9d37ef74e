"""One POST: which addresses it may go to, and Retry-After."""

from __future__ import annotations

import asyncio
import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from crawlfleet.network.address_guard import AddressGuard
from crawlfleet.notices.http_post import HttpAnswer, HttpPoster, PostFailed, PostRequest, encode_body, parse_retry_after
from testkit.notice_receiver import NoticeReceiver, accept_all
from testkit.patience import PATIENCE_S

NOW = 1_800_000_000_000


class NamedAddress(AbstractResolver):
    """Resolves every name to one address, as a name server of an attacker does."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=self._address,
                port=port,
                family=socket.AF_INET,
                proto=6,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        pass


def request(url: str) -> PostRequest:
    return PostRequest(url, b"{}", {})


async def test_a_name_that_leads_to_a_private_address_is_refused_and_nothing_is_sent() -> None:
    async with NoticeReceiver(accept_all) as receiver:
        poster = HttpPoster(AddressGuard(hint="see the list"), resolver=NamedAddress("127.0.0.1"), send_s=PATIENCE_S)
        with pytest.raises(PostFailed, match=r"hooks\.test \(127\.0\.0\.1\) is loopback: see the list") as failed:
            await poster.post(request(f"http://hooks.test:{receiver.port}/"), NOW)
    assert failed.value.is_permanent
    assert receiver.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.7", "0x7f000001", "2130706433"])
async def test_a_private_address_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(PostFailed):
        await HttpPoster(AddressGuard(), send_s=PATIENCE_S).post(request(f"http://{host}:9/"), NOW)


async def test_a_name_that_is_allowed_is_sent_to() -> None:
    async with NoticeReceiver(accept_all) as receiver:
        guard = AddressGuard(["hooks.test"])
        poster = HttpPoster(guard, resolver=NamedAddress("127.0.0.1"), send_s=PATIENCE_S)
        answer = await poster.post(request(f"http://hooks.test:{receiver.port}/"), NOW)
    assert answer.status == 204
    assert receiver.requests[0].headers["host"] == f"hooks.test:{receiver.port}"


async def test_a_name_without_address_is_named() -> None:
    with pytest.raises(PostFailed, match=r"^no address of no-such-host\.invalid was found$"):
        await HttpPoster(AddressGuard(), send_s=PATIENCE_S).post(request("https://no-such-host.invalid/secret"), NOW)


async def test_plain_text_behind_https_is_told_as_tls() -> None:
    async def answer_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer_plainly, "127.0.0.1")
    async with server:
        port = server.sockets[0].getsockname()[1]
        poster = HttpPoster(AddressGuard(["127.0.0.1"]), send_s=PATIENCE_S)
        with pytest.raises(PostFailed, match="no TLS connection to 127"):
            await poster.post(request(f"https://127.0.0.1:{port}/"), NOW)


async def test_a_cancelled_post_is_cancelled() -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with NoticeReceiver(accept_all) as receiver:
            poster = HttpPoster(AddressGuard(["127.0.0.1"]), send_s=PATIENCE_S)
            call = asyncio.create_task(poster.post(request(f"http://127.0.0.1:{receiver.port}/"), NOW))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("120", 120.0),
        (" 7 ", 7.0),
        ("-5", None),
        ("soon", None),
        ("99999999999999999999", 86_400.0),
        ("Fri, 15 Jan 2027 08:01:00 GMT", 60.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 15 Jan 2027 08:01:00", 60.0),
        ("Mon, 99 Foo 2027 08:01:00 GMT", None),
        ("٣", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


def test_a_body_is_utf8_as_it_was_written() -> None:
    assert encode_body({"a": "告警 \ud800"}) == '{"a":"告警 ?"}'.encode()
    assert HttpAnswer(200, "[1]").parse_object() is None
