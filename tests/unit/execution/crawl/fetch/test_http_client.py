"""Requests as they go over the wire, and answers as they are read: no session in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from crawlfleet.execution.crawl.fetch.connections import Connector, NotHttp
from crawlfleet.execution.crawl.fetch.http_client import HttpClient, RequestOptions

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\npage"


class Server:
    """Says what it is told, one answer per request, and remembers every word it heard."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.heard: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                self.heard.append(await reader.readuntil(b"\r\n\r\n"))
                answer = self._answers.pop(0)
                if not answer:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[Server]:
    server = Server(*answers)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


@asynccontextmanager
async def client(total_s: float = 5.0) -> AsyncIterator[HttpClient]:
    made = HttpClient(Connector(limit=0), connect_s=5.0, total_s=total_s)
    try:
        yield made
    finally:
        await made.close()


async def look() -> None:
    pass


async def page(ours: HttpClient, server: Server, path: str, conditions: dict[str, str] | None = None) -> bytes:
    way = ours.prepare_origin(server.url, RequestOptions({"User-Agent": "test/1"}))
    answer = await ours.get(way, f"{server.url}{path}", conditions or {}, look)
    try:
        body = b""
        while chunk := await answer.read_part():
            body += chunk
        return body
    finally:
        answer.release()


async def test_a_request_is_its_path_and_the_headers_of_its_origin() -> None:
    async with serving(PAGE) as server, client() as ours:
        assert await page(ours, server, "/a%20b/?q=%E4&&x?") == b"page"
    head, *lines = server.heard[0].decode().split("\r\n")
    assert head == "GET /a%20b/?q=%E4&&x? HTTP/1.1"
    assert f"Host: {server.url[7:]}" in lines
    assert "User-Agent: test/1" in lines
    assert sum(line.startswith("Accept-Encoding:") for line in lines) == 1


async def test_conditions_and_cookies_go_with_the_requests_they_are_for() -> None:
    with_cookie = PAGE.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=1; Path=/in\r\n\r\n")
    async with serving(with_cookie, PAGE, PAGE) as server, client() as ours:
        await page(ours, server, "/in/1")
        await page(ours, server, "/in/2", {"If-None-Match": '"x"'})
        await page(ours, server, "/out")
    first, second, third = server.heard
    assert b"Cookie:" not in first
    assert b"Cookie: a=1" in second
    assert b'If-None-Match: "x"' in second
    assert b"Cookie:" not in third
    assert b"If-None-Match" not in third
    assert server.connections == 1


@pytest.mark.parametrize("url", ["http://other.test/", "/\r\nX: y", "/a b", "/ä"])
async def test_only_urls_of_its_origin_and_printable_ones_are_sent(url: str) -> None:
    async with serving(PAGE) as server, client() as ours:
        way = ours.prepare_origin(server.url, RequestOptions({}))
        with pytest.raises(aiohttp.InvalidURL):
            await ours.get(way, url if url.startswith("http") else f"{server.url}{url}", {}, look)
    assert server.heard == []


async def test_a_header_with_a_line_break_is_not_sent() -> None:
    async with client() as ours:
        with pytest.raises(ValueError, match="line break"):
            ours.prepare_origin("http://a.test", RequestOptions({"X-One": "1\r\nX-Two: 2"}))


async def test_a_body_that_is_not_read_to_its_end_costs_its_connection() -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nbegin"
    async with serving(cut, PAGE) as server, client() as ours:
        way = ours.prepare_origin(server.url, RequestOptions({}))
        answer = await ours.get(way, f"{server.url}/1", {}, look)
        assert await answer.read_part() == b"begin"
        answer.release()
        assert await page(ours, server, "/2") == b"page"
    assert server.connections == 2


async def test_a_kept_connection_that_was_closed_is_replaced_once_and_each_request_is_looked_at() -> None:
    looks = 0

    async def count() -> None:
        nonlocal looks
        looks += 1

    async with serving(PAGE, b"", PAGE, b"", b"") as server, client() as ours:
        way = ours.prepare_origin(server.url, RequestOptions({}))
        for path in ("/1", "/2"):
            answer = await ours.get(way, f"{server.url}{path}", {}, count)
            assert await answer.read_at_most(2) == b"pa"
            assert await answer.read_at_most(64) == b"ge"
            answer.release()
        assert looks == len(server.heard) == 3
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await ours.get(way, f"{server.url}/3", {}, count)
    assert looks == len(server.heard) == 5


async def test_the_whole_answer_has_to_come_in_time() -> None:
    async with serving(PAGE[:-2], PAGE) as server, client(total_s=0.3) as ours:
        with pytest.raises(TimeoutError):
            await page(ours, server, "/")


async def test_an_answer_that_is_no_http_is_told_as_such() -> None:
    async with serving(b"SSH-2.0-OpenSSH_9.6\r\n\r\n") as server, client() as ours:
        with pytest.raises(NotHttp):
            await page(ours, server, "/")
