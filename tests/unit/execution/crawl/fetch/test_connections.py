"""What comes over a connection to a stranger: in whatever pieces, however much, and whether it was asked for or not."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.fetch.connections import (
    ANSWERS_MOST,
    HEADERS,
    HELD_BYTES,
    LINE_BYTES,
    NotHttp,
    SiteConnection,
)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PAGE = HEAD + b"Content-Length: 4\r\n\r\npage"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\npa\r\n2;x=y\r\nge\r\n0\r\nX-Sum: 1\r\n\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>\r\n\r\n"


class Line(asyncio.Transport):
    """Takes what is written, and notes how it is treated."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reads = True
        self.is_ended = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    abort = close

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_held_up(self) -> bool:
        return not self.reads


class Said:
    """A connection on which somebody asks, and what comes of it."""

    def __init__(self) -> None:
        self.line = Line()
        self.site = SiteConnection(asyncio.get_running_loop())
        self.site.connection_made(self.line)

    async def asks(self, within_s: float = 5.0) -> asyncio.Task[None]:
        asking = asyncio.create_task(
            self.site.send_request(b"GET / HTTP/1.1\r\n\r\n", asyncio.get_running_loop().time() + within_s)
        )
        await asyncio.sleep(0)
        return asking

    async def body(self) -> bytes:
        parts = []
        while part := await self.site.read_part():
            parts.append(part)
        return b"".join(parts)

    async def page(self, *pieces: bytes) -> bytes:
        asking = await self.asks()
        for piece in pieces:
            self.site.data_received(piece)
        await asking
        return await self.body()


async def test_a_page_and_the_next_one_on_the_same_connection() -> None:
    said = Said()
    assert await said.page(PAGE) == b"page"
    assert said.site.status == 200
    assert said.site.fields == [(b"Content-Type", b"text/html"), (b"Content-Length", b"4")]
    said.site.end_exchange()
    assert not said.site.should_close
    assert await said.page(CHUNKED) == b"page"
    assert (b"X-Sum", b"1") not in said.site.fields


@given(st.sampled_from([PAGE, CHUNKED, HINT + PAGE, PAGE.replace(b"\r\n", b"\n")]), st.sets(st.integers(1, 200)))
def test_it_is_the_same_in_whatever_pieces_it_comes(answer: bytes, cuts: set[int]) -> None:
    async def met() -> tuple[int, bytes, list[tuple[bytes, bytes]], bytes]:
        said = Said()
        at = [0, *sorted(cut for cut in cuts if cut < len(answer)), len(answer)]
        body = await said.page(*(answer[a:b] for a, b in pairwise(at)))
        return said.site.status, said.site.reason, said.site.fields[:1], body

    assert asyncio.run(met()) == (200, b"OK", [(b"Content-Type", b"text/html")], b"page")


async def test_what_comes_behind_the_end_is_no_part_of_it_and_ends_the_connection() -> None:
    for behind in (b"more of it", PAGE, b"\x00\xff"):
        said = Said()
        assert await said.page(PAGE + behind) == b"page"
        said.site.end_exchange()
        assert said.site.should_close


async def test_what_comes_while_nothing_is_asked_ends_the_connection() -> None:
    said = Said()
    await said.page(PAGE)
    said.site.end_exchange()
    said.site.data_received(PAGE.replace(b"page", b"evil"))
    assert said.line.is_ended
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await said.page()


async def test_who_speaks_first_is_heard_when_asked() -> None:
    said = Said()
    said.site.data_received(b"SSH-2.0-OpenSSH_9.6\r\n")
    assert said.line.is_held_up()
    with pytest.raises(NotHttp):
        await said.page()


@pytest.mark.parametrize(
    "answer",
    [
        b"220 mail.test ESMTP\r\n",
        b"HTTP/2 200\r\n\r\n",
        HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\npage",
        HEAD + b"Content-Length: -4\r\n\r\npage",
        HEAD + b"X: y\r\n" * HEADERS + b"\r\n",
        HEAD + b"X: " + b"y" * (LINE_BYTES + 1) + b"\r\n\r\n",
        HINT * (ANSWERS_MOST + 1) + PAGE,
    ],
)
async def test_what_is_no_http_is_no_answer(answer: bytes) -> None:
    said = Said()
    with pytest.raises(NotHttp):
        await said.page(answer)
    assert said.site.should_close


@pytest.mark.parametrize(("begin", "more"), [(b"X: ", b"y" * 65_536), (b"", b"X: y\r\n" * 10)])
async def test_a_head_without_an_end_has_one(begin: bytes, more: bytes) -> None:
    said = Said()
    asking = await said.asks()
    said.site.data_received(HEAD + begin)
    for _ in range(100):
        said.site.data_received(more)
    with pytest.raises(NotHttp):
        await asking


@pytest.mark.parametrize("more", [b"X: y\r\n" * 10, b"y" * 65_536])
@pytest.mark.parametrize("begin", [b"0\r\nX: ", b"2;x="], ids=["trailers", "chunks"])
async def test_what_stands_around_a_body_has_an_end(begin: bytes, more: bytes) -> None:
    said = Said()
    asking = await said.asks()
    said.site.data_received(CHUNKED[: CHUNKED.index(b"0\r\n")] + begin)
    for _ in range(100):
        said.site.data_received(more)
    await asking
    assert await said.site.read_part() == b"page"
    with pytest.raises(NotHttp):
        await said.site.read_part()


async def test_a_site_that_sends_faster_than_it_is_read_is_held_up() -> None:
    said = Said()
    asking = await said.asks()
    size = 4 * HELD_BYTES
    said.site.data_received(HEAD + b"Content-Length: %d\r\n\r\n" % size)
    await asking
    sent = 0
    while not said.line.is_held_up():
        said.site.data_received(b"x" * 65_536)
        sent += 65_536
    assert HELD_BYTES <= sent <= HELD_BYTES + 65_536
    assert len(await said.site.read_part()) == sent
    assert not said.line.is_held_up()
    said.site.data_received(b"x" * (size - sent))
    assert len(await said.body()) == size - sent
    assert said.site.is_read


async def test_a_body_that_says_nothing_of_its_length_ends_with_its_connection() -> None:
    said = Said()
    asking = await said.asks()
    said.site.data_received(HEAD + b"\r\nthe whole ")
    await asking
    said.site.data_received(b"page")
    said.site.connection_lost(None)
    assert await said.body() == b"the whole page"


@pytest.mark.parametrize("exc", [None, ConnectionResetError(104, "reset")])
@pytest.mark.parametrize("answer", [PAGE[:-2], CHUNKED[:-20]])
async def test_what_breaks_off_can_be_read_up_to_there_and_no_further(answer: bytes, exc: Exception | None) -> None:
    said = Said()
    asking = await said.asks()
    said.site.data_received(answer)
    said.site.connection_lost(exc)
    await asking
    assert (await said.site.read_part()).startswith(b"pa")
    with pytest.raises(aiohttp.ClientPayloadError):
        await said.site.read_part()


@pytest.mark.parametrize(
    ("exc", "told"),
    [(None, aiohttp.ServerDisconnectedError), (ConnectionResetError(104, "reset"), aiohttp.ClientOSError)],
)
async def test_no_answer_at_all(exc: Exception | None, told: type[Exception]) -> None:
    said = Said()
    asking = await said.asks()
    said.site.connection_lost(exc)
    with pytest.raises(told):
        await asking


async def test_the_time_is_for_the_whole_answer() -> None:
    said = Said()
    asking = await said.asks(within_s=0.05)
    said.site.data_received(PAGE[:-2])
    await asking
    assert await said.site.read_part() == b"pa"
    with pytest.raises(TimeoutError):
        await said.site.read_part()
    said.site.end_exchange()
    assert said.site.should_close


async def test_an_answer_that_nobody_asked_to_switch_protocols_for() -> None:
    said = Said()
    asking = await said.asks()
    said.site.data_received(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n\x00\x00")
    await asking
    assert said.site.status == 101
    said.site.end_exchange()
    assert said.site.should_close


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_no_bytes_whatsoever_do_more_than_fail(pieces: list[bytes]) -> None:
    async def met() -> None:
        said = Said()
        asking = await said.asks()
        for piece in pieces:
            if not said.line.is_ended:
                said.site.data_received(piece)
        said.site.connection_lost(None)
        try:
            await asking
            await said.body()
        except aiohttp.ClientError:
            pass
        said.site.end_exchange()

    asyncio.run(met())


async def test_a_rest_that_comes_too_late_costs_the_next_page_a_connection_and_nothing_else() -> None:
    """Of an answer that is longer than it said, when the rest comes after the next request."""
    from crawlfleet.execution.crawl.fetch.connections import Connector
    from crawlfleet.execution.crawl.fetch.http_client import HttpClient, RequestOptions

    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(PAGE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"</html>")
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def look() -> None:
        pass

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        client = HttpClient(Connector(limit=0), connect_s=5.0, total_s=5.0)
        try:
            for _ in range(2):
                answer = await client.get(client.prepare_origin(url, RequestOptions({})), f"{url}/", {}, look)
                assert await answer.read_part() == b"page"
                answer.release()
        finally:
            await client.close()
    assert connections == 2
