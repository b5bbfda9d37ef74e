"""One page over HTTP, from servers as they are: slow, endless, packed, redirecting, broken."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.fetch.fetcher import MAX_HOPS, FetchLimits, Hop
from crawlfleet.execution.crawl.fetch.responses import is_json, is_page, is_text, retry_after_s
from crawlfleet.execution.crawl.frontier.urls import parse_origin
from crawlfleet.execution.page_failures import PageFailed, PageSkipped
from testkit.patience import promised
from tests.unit.execution.crawl.crawl_kit import Answer, fetcher, raw_site, site

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def says(status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(
            status=status, body=body, headers={name.replace("_", "-"): text for name, text in headers.items()}
        )

    return answer


async def failure(url: str, limits: FetchLimits | None = None) -> PageFailed:
    async with fetcher(limits=limits) as ours:
        with pytest.raises(PageFailed) as told:
            await ours.fetch(url)
    return told.value


async def test_nobody_there_is_told_in_words() -> None:
    refused, unknown = await failure("http://127.0.0.1:1/"), await failure("http://nosuch.invalid/")
    assert str(refused) == "http://127.0.0.1:1/: no connection to 127.0.0.1:1: Connection refused"
    assert str(unknown).startswith("http://nosuch.invalid/: no address of nosuch.invalid: ")
    assert (refused.kind, unknown.kind) == ("connect", "dns")


async def test_a_page() -> None:
    async with site({"/": says(body=b"<p>hi", Content_Type="text/html; charset=gbk")}) as served, fetcher() as ours:
        page = await ours.fetch(f"{served.url}/")
    assert (page.url, page.status, page.content_type, page.charset) == (f"{served.url}/", 200, "text/html", "gbk")
    assert page.body == b"<p>hi"


@pytest.mark.parametrize(
    ("status", "error", "permanent"),
    [
        (400, "http", True),
        (401, "http", True),
        (403, "blocked", False),
        (404, "http", True),
        (408, "http", False),
        (410, "http", True),
        (425, "http", False),
        (429, "blocked", False),
        (500, "http", False),
        (503, "http", False),
        (304, "http", False),
    ],
)
async def test_the_class_of_an_answer(status: int, error: str, permanent: bool) -> None:
    async with site({"/": says(status, Retry_After="7")}) as served:
        told = await failure(f"{served.url}/")
    assert (told.error, told.permanent, told.status, told.retry_after_s) == (error, permanent, status, 7.0)


async def test_redirects_are_followed_hop_by_hop() -> None:
    asked: list[tuple[str, int]] = []

    async def admit(url: str, hop: Hop) -> None:
        asked.append((url, hop.number))

    pages: dict[str, Answer | str] = {"/c": "end"}
    for path, target, status in [("/", "/b#x", 301), ("/b", "c", 307)]:
        pages[path] = says(status, Location=target)
    async with site(pages) as served, fetcher() as ours:
        page = await ours.fetch(f"{served.url}/", admit=admit)
        assert page.url == f"{served.url}/c"
        assert asked == [(f"{served.url}{path}", hop) for hop, path in enumerate(("/", "/b", "/c"))]


async def test_redirects_end() -> None:
    async def on(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"/?n={len(served.hits)}")

    async with site({"/": on}) as served:
        told = await failure(f"{served.url}/")
        assert (told.error, told.permanent) == ("http", True)
        assert len(served.hits) == MAX_HOPS + 1


@pytest.mark.parametrize("target", ["", "mailto:x@y.test", "file:///etc/passwd", "gopher://127.0.0.1:70/", "http://"])
async def test_a_redirect_to_no_page(target: str) -> None:
    async with site({"/": says(302, Location=target) if target else says(302)}) as served:
        told = await failure(f"{served.url}/")
        assert (told.error, told.permanent) == ("http", True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_is_stopped_early(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress
    bomb = pack(bytes(100_000_000))
    async with site({"/": says(body=bomb, Content_Encoding=encoding, Content_Type="text/html")}) as served:
        tracemalloc.start()
        told = await failure(f"{served.url}/", FetchLimits(page_bytes=1_000_000))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert (told.error, told.permanent) == ("parse", True)
    assert peak < 10_000_000


async def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 10000000000\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(30)

    async with raw_site(talk) as served:
        assert "larger than" in str(await failure(f"{served.url}/"))


async def test_hints_without_end_are_no_answer() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>; rel=preload\r\n\r\n"

    async def talk(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(hint * 1_000)
            await writer.drain()

    async with raw_site(talk) as served, fetcher() as fetching:
        began = time.monotonic()
        with pytest.raises(PageFailed, match="too many answers to one request") as told:
            await fetching.fetch(served.url)
    assert (told.value.error, told.value.kind) == ("network", "protocol")
    assert time.monotonic() - began < promised(5)


async def test_a_few_hints_are_passed_over() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x.css>; rel=preload\r\n\r\n"

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(hint * 20 + b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok")

    async with raw_site(talk) as served, fetcher() as fetching:
        assert (await fetching.fetch(served.url)).body == b"ok"


@pytest.mark.parametrize("packed", [False, True])
async def test_an_endless_body_is_cut(packed: bool) -> None:
    # Empty gzip members: a stream that never unpacks to anything.
    part = gzip.compress(b"") * 3_000 if packed else b"x" * 65_536
    encoding = b"Content-Encoding: gzip\r\n" if packed else b""

    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + encoding + b"\r\n")
        while True:
            writer.write(part)
            await writer.drain()

    async with raw_site(talk) as served:
        told = await failure(f"{served.url}/", FetchLimits(page_bytes=2_000_000))
    assert (told.error, told.permanent) == ("parse", True)


async def test_a_body_that_drips_runs_into_the_time_limit() -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    began = time.monotonic()
    async with raw_site(talk) as served:
        assert (await failure(f"{served.url}/", FetchLimits(total_s=0.4))).error == "timeout"
    assert time.monotonic() - began < promised(5)


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 100\r\n\r\nhalf",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"",
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
    ids=["cut off", "cut chunk", "silence", "no http", "long header"],
)
async def test_broken_answers_are_network_errors(answer: bytes) -> None:
    async def talk(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    async with raw_site(talk) as served:
        told = await failure(f"{served.url}/")
    assert (told.error, told.permanent) == ("network", False)


@pytest.mark.parametrize("first", [0, 20, 100, 110, 300], ids=["at once", "in it", "before it", "after it", "later"])
async def test_an_answer_is_as_long_as_it_says_however_it_comes(first: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n"
    said = head + b"<p>" + b"x" * 297

    async def talk(writer: asyncio.StreamWriter) -> None:
        for part in (said[: len(head) + first], said[len(head) + first :]) if first else (said,):
            writer.write(part)
            await asyncio.sleep(0.02)

    async with raw_site(talk) as served, fetcher() as fetching:
        assert (await fetching.fetch(f"{served.url}/")).body == said[len(head) :][:100]


async def test_nobody_there() -> None:
    async with site({}) as served:
        gone = served.url
    assert (await failure(f"{gone}/")).error == "network"
    assert (await failure("http://no-such-host.invalid/")).error == "network"


async def test_other_types_are_skipped_without_their_body() -> None:
    async with site({"/": says(body=b"x" * 5_000_000, Content_Type="application/pdf")}) as served, fetcher() as ours:
        with pytest.raises(PageSkipped, match="application/pdf"):
            await ours.fetch(f"{served.url}/")
        assert ours.bytes_in == 0
    pages, feeds = ("text/html", "application/xhtml+xml", "text/plain", ""), ("application/rss+xml", "text/csv")
    others = ("image/png", "application/json", "application/jsonp", "application/octet-stream")
    assert [kind for kind in (*pages, *feeds, *others) if is_page(kind)] == [*pages]
    assert [kind for kind in (*pages, *feeds, *others) if is_text(kind)] == [*pages, *feeds]
    assert [kind for kind in (*others, "application/ld+json") if is_json(kind)] == [
        "application/json",
        "application/ld+json",
    ]


async def test_the_beginning_of_a_file_is_enough_where_asked_for() -> None:
    async with site({"/": says(body=b"x" * 5_000_000, Content_Type="image/png")}) as served, fetcher() as ours:
        assert (await ours.fetch_head(f"{served.url}/", 1_000)).body == b"x" * 1_000


async def test_cookies_stay_within_one_fetcher_and_bounded() -> None:
    seen: list[dict[str, str]] = []

    async def give(request: web.Request) -> web.Response:
        seen.append(dict(request.cookies))
        answer = web.Response(text="ok")
        for n in range(40):
            answer.set_cookie(f"c{len(seen)}-{n}", "v")
        return answer

    async with site({"/": give}) as served:
        async with fetcher() as ours:
            for _ in range(15):
                await ours.fetch(f"{served.url}/")
        async with fetcher() as another:
            await another.fetch(f"{served.url}/")
    assert len(seen[1]) == 40
    assert max(map(len, seen)) <= 340
    assert seen[-1] == {}


async def test_credentials_go_to_their_origin_only() -> None:
    seen: dict[int, str | None] = {}

    async def note(request: web.Request) -> web.Response:
        seen[request.url.port or 0] = request.headers.get("Authorization")
        return web.Response(text="ok")

    async with site({"/": note}) as one, site({"/": note}) as two:
        known = {parse_origin(f"{one.url}/").origin: ("user", "pw")}
        async with fetcher(credentials=known) as ours:
            await ours.fetch(f"{one.url}/")
            await ours.fetch(f"{two.url}/")
    assert seen == {one.port: "Basic dXNlcjpwdw==", two.port: None}


def test_retry_after() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    assert 80 < retry_after_s(soon) <= 90
    assert [retry_after_s(text) for text in ("5", "-3", "", "soon", "Wed, 01 Jan 2020 00:00:00 GMT")] == [5, 0, 0, 0, 0]
    # What a site says must be a span that can be kept.
    assert [retry_after_s(text) for text in ("1e300", "inf", "nan", "Wed, 01 Jan 2200 00:00:00 GMT")] == [
        86_400,
        86_400,
        0,
        86_400,
    ]
