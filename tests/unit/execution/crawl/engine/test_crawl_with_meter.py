"""A crawl with a meter: every request counts, whatever it is for; bodies count as they come; without a page none."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.budget.quota_meter import BYTES, PAGES, OverQuota, QuotaMeter, QuotaRefusal
from crawlfleet.execution.crawl.fetch.fetcher import FetchLimits
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.inside.error_classes import classify_error
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.sdk import TaskContext
from crawlfleet.model.status import ErrorClass
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Heard, fetcher, raw_site, site

LOTS = 1 << 40


class Day:
    """Grants everything at once, up to what there is."""

    def __init__(self, pages: int = LOTS, size: int = LOTS, slice_bytes: int = LOTS) -> None:
        self.left = [pages, size]
        self.total = [0, 0]
        self._slices = [LOTS, slice_bytes]
        self.meter = QuotaMeter(self)

    def request_slice(self, number: int, pages: int, size_bytes: int) -> None:
        refused = []
        for place, (quota, asked) in enumerate(((PAGES, pages), (BYTES, size_bytes))):
            got = min(asked, self.left[place], self._slices[place])
            self.left[place] -= got
            self.total[place] += got
            if asked and not got:
                refused.append(QuotaRefusal(quota, "p", f"no {quota} left", 60_000))
        pages, size_bytes = self.total
        asyncio.get_running_loop().call_soon(self.meter.apply_slice, number, pages, size_bytes, refused)


async def crawl(day: Day, url: str, **parameters: Any) -> Mapping[str, Any]:
    context = TaskContext(
        Heard(),
        task_id="task-1",
        execution_id="exec-1",
        task_type="web_crawl",
        parameters={"url": url, "depth": 1, **parameters},
        allow_hosts=LOOPBACK,
        meter=day.meter,
    )
    result: dict[str, Any] = await WebCrawl().run(context)
    return result


async def test_every_request_is_a_page_robots_and_redirects_too() -> None:
    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound("/there")

    day = Day()
    async with site({"/": moved, "/there": '<a href="/1">1</a> <a href="/gone">2</a>', "/1": "one"}) as served:
        result = await crawl(day, served.url)
    assert sorted(served.hits) == sorted(["/robots.txt", "/", "/there", "/1", "/gone"])
    assert day.meter.used[0] == len(served.hits)
    assert result["metrics"]["pages_crawled"] == 2


async def test_a_crawl_ends_with_its_pages() -> None:
    links = "".join(f'<a href="/{number}">.</a>' for number in range(30))
    day = Day(pages=7)
    async with site({"/": links, **{f"/{number}": "" for number in range(30)}}) as served:
        with pytest.raises(OverQuota, match="no pages_per_day left"):
            await crawl(day, served.url)
    assert len(served.hits) == day.meter.used[0] <= 7


async def test_bytes_are_counted_as_they_come_over_the_wire() -> None:
    body = gzip.compress(b"word " * 100_000)

    async def packed(_: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": "text/html", "Content-Encoding": "gzip"})

    day = Day()
    async with site({"/": packed}) as served, fetcher(meter=day.meter) as ours:
        assert len((await ours.fetch(f"{served.url}/")).body) == 500_000
    assert day.meter.used == (1, len(body))


async def test_a_body_waits_for_slices_and_ends_when_there_is_none() -> None:
    text = "x" * 300_000
    day = Day(size=1_000_000, slice_bytes=70_000)
    async with site({"/": text}) as served, fetcher(meter=day.meter) as ours:
        for _ in range(3):
            assert len((await ours.fetch(f"{served.url}/")).body) == 300_000
        with pytest.raises(OverQuota, match="no bytes_per_day left"):
            await ours.fetch(f"{served.url}/")
    assert day.meter.used == (4, 1_000_000)


async def test_the_last_byte_of_a_body_may_be_the_last_of_the_day() -> None:
    day = Day(size=1_000)
    async with site({"/": "x" * 1_000}) as served, fetcher(meter=day.meter) as ours:
        assert len((await ours.fetch(f"{served.url}/")).body) == 1_000


async def test_a_request_that_never_left_is_not_counted() -> None:
    day = Day()
    async with fetcher(meter=day.meter, limits=FetchLimits(connect_s=0.5, total_s=0.5)) as ours:
        for url in ("http://127.0.0.1:1/", "http://10.0.0.1/"):
            with pytest.raises(PageFailed):
                await ours.fetch(url)
    assert day.meter.used == (0, 0)


async def test_a_request_that_was_never_answered_is_counted() -> None:
    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    day = Day()
    async with raw_site(hang_up) as served, fetcher(meter=day.meter) as ours:
        with pytest.raises(PageFailed):
            await ours.fetch(f"{served.url}/")
    assert day.meter.used[0] == len(served.hits) >= 1


async def test_what_the_client_asks_again_by_itself_is_a_page_too() -> None:
    heads: list[bytes] = []

    async def once_a_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keeps the connection, and hangs up when it is used again."""
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
        await reader.readuntil(b"\r\n\r\n")
        heads.append(b"again")
        writer.close()

    day = Day()
    server = await asyncio.start_server(once_a_connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, fetcher(meter=day.meter) as ours:
        for _ in range(2):
            assert (await ours.fetch(f"http://127.0.0.1:{port}/")).body == b"hi"
    assert (day.meter.used[0], heads.count(b"again")) == (3, 1)
    assert len(heads) == 3


async def test_without_a_meter_nothing_is_counted() -> None:
    async with site({"/": "hi"}) as served, fetcher() as ours:
        await ours.fetch(f"{served.url}/")
        assert ours.bytes_in == 2


def test_what_it_means_when_it_may_not_wait() -> None:
    said = classify_error(OverQuota(QuotaRefusal(PAGES, "p", "none left")))
    assert said == (ErrorClass.POLICY, "none left", True, True)
