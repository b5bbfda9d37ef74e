"""A site that goes away for a while costs time and no page; a page that breaks every connection costs only itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from crawlfleet.execution.executors.shops.product_crawler import ProductCrawler
from crawlfleet.execution.sdk import TaskContext, TaskError
from crawlfleet.model.crawl import CrawlUrl
from crawlfleet.wire.crawl import CrawlDown, CrawlUp, ReportBody
from testkit.patience import PATIENCE_S
from tests.integration.execution.crawl.shared.spread_kit import Link, Spread
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Answer, Heard, crawl, site
from tests.unit.store.store_kit import sqlite_kit

pytestmark = pytest.mark.integration

PAGES = [f"/{number}" for number in range(60)]
LIST = "".join(f'<a href="{path}">x</a>' for path in PAGES)
AWAY_S = 1.6
"""Longer than a page's own tries take."""


class Restarting:
    """A server below HTTP that is stopped after so many requests, and started again on its port after a while."""

    def __init__(
        self, away_s: float = AWAY_S, *, stops_after: int = 20, breaks: Sequence[str] = (), says: bytes | None = None
    ) -> None:
        """`says`: what it answers while it is away; None: nobody listens."""
        self.hits: Counter[str] = Counter()
        self.stops = 0
        self._away_s = away_s
        self._stops_after = stops_after
        self._breaks = breaks
        self._says = says
        self._is_up = True
        self.url = ""
        self._port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._again: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    async def start(self) -> None:
        self._is_up = True
        if self._server is not None and self._server.is_serving():
            return
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def stop(self) -> None:
        """As a kill does: what is under way is cut, and nobody listens."""
        self._is_up = False
        if self._server is not None and self._says is None:
            self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def end(self) -> None:
        if self._again is not None:
            self._again.cancel()
            await asyncio.wait([self._again])
        self._says = None
        self.stop()

    async def _restart(self) -> None:
        await asyncio.sleep(self._away_s)
        await self.start()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if not self._is_up:
                    writer.write(self._says or b"")
                    return
                path = head.split(b" ")[1].decode()
                self.hits[path] += 1
                if self.hits.total() == self._stops_after:
                    self.stops += 1
                    self.stop()
                    self._again = asyncio.create_task(self._restart())
                if path in self._breaks:
                    return
                await asyncio.sleep(0.01)
                kind, body = ("plain", "") if path == "/robots.txt" else ("html", LIST if path == "/" else "<p>x")
                said = f"HTTP/1.1 200 OK\r\nContent-Type: text/{kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                writer.write(said.encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


@asynccontextmanager
async def restarting(*given: Any, **more: Any) -> AsyncIterator[Restarting]:
    served = Restarting(*given, **more)
    await served.start()
    try:
        yield served
    finally:
        await served.end()


def read(heard: Heard, served: Restarting) -> Counter[str]:
    return Counter(item["url"].removeprefix(served.url) for item in heard.items)


EVERY = Counter(["/", *PAGES])


@pytest.mark.parametrize(
    "says", [None, b"", b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"], ids=["refuses", "closes", "502"]
)
async def test_a_restart_half_way_loses_no_page(says: bytes | None) -> None:
    heard = Heard()
    async with restarting(says=says) as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100}, heard)
    assert served.stops == 1
    assert read(heard, served) == EVERY
    assert result["metrics"]["errors"] == {}
    lines = [line for _, line in heard.lines if "answer" in line]
    assert len(lines) == 2 and "does not answer any more" in lines[0] and "answers again after" in lines[1]


async def test_over_two_members_no_page_is_lost_either(tmp_path: Path) -> None:
    async with restarting(stops_after=30) as served, sqlite_kit(tmp_path) as kit:
        spread = Spread(kit, {"url": f"{served.url}/", "depth": 1, "max_pages": 100, "concurrency": 2}, 2)
        await spread.run()
        state = await spread.state()
        items = await spread.items()
    assert served.stops == 1
    assert Counter(item["url"].removeprefix(served.url) for item in items) == EVERY
    assert (state.counts.pages, state.counts.failed) == (len(EVERY), 0)


async def test_a_member_that_never_met_the_site_waits_for_it_as_well(tmp_path: Path) -> None:
    async with restarting(stops_after=0) as served, sqlite_kit(tmp_path) as kit:
        spread = Spread(kit, {"url": f"{served.url}/", "depth": 1, "max_pages": 100}, 1)
        await spread.make()
        # Somebody has read the start page, and is gone.
        before = await spread.member()
        link = Link(spread, before, Heard())
        leased = msgspec.json.decode(await link.report_crawl(msgspec.json.encode(CrawlUp())), type=CrawlDown)
        report = ReportBody(leased.number, 1, found=[CrawlUrl(f"{served.url}{path}", 1) for path in PAGES])
        await link.report_crawl(msgspec.json.encode(CrawlUp(report)))
        await kit.end(before.node)
        served.stop()
        working = asyncio.create_task(spread.work(await spread.member()))
        await asyncio.sleep(AWAY_S)
        assert (await spread.state()).counts.failed == 0
        await served.start()
        async with asyncio.timeout(PATIENCE_S):
            await working
        state = await spread.state()
    assert (state.counts.pages, state.counts.failed) == (len(EVERY), 0)
    assert served.hits["/robots.txt"] == 2 and set(served.hits.values()) == {1, 2}


async def test_visits_to_products_wait_for_their_shop_together() -> None:
    heard = Heard()
    async with restarting(stops_after=35) as served:
        context = TaskContext(
            heard,
            task_id="task-1",
            execution_id="exec-1",
            task_type="batch_products",
            allow_hosts=LOOPBACK,
            parameters={},
        )
        async with ProductCrawler(context, {}) as shopper:
            for start in range(0, len(PAGES), 10):
                urls = [f"{served.url}{path}" for path in PAGES[start : start + 10]]
                looks = await asyncio.gather(*(shopper.visit_product(url) for url in urls))
                # No product is on these pages, and that was read.
                assert all(look.failure is None for look in looks)
    assert served.stops == 1
    assert sum("does not answer any more" in line for _, line in heard.lines) == 1


async def test_a_page_that_breaks_connections_fails_by_itself() -> None:
    heard = Heard()
    async with restarting(stops_after=0, breaks=("/7", "/59")) as served:
        async with asyncio.timeout(PATIENCE_S):
            result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100}, heard)
    assert read(heard, served) == EVERY - Counter(["/7", "/59"])
    assert result["metrics"]["failures"] == {"closed": 2}
    assert not any("does not answer any more" in line for _, line in heard.lines)


async def test_a_page_that_breaks_what_stands_before_the_site_fails_by_itself() -> None:
    async def broken(_request: web.Request) -> web.Response:
        return web.Response(status=502)

    pages: dict[str, Answer | str] = {"/": LIST, **dict.fromkeys(PAGES, "<p>x"), "/7": broken}
    async with site(pages) as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100})
    assert result["metrics"]["failures"] == {"status": 1}
    assert Counter(served.hits)["/7"] == 2


async def test_a_site_that_stays_away_fails_its_pages_once_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlfleet.execution.crawl.engine.crawl.AT_ONCE", 7)
    heard = Heard()
    async with restarting(600.0) as served:
        parameters = {"url": f"{served.url}/", "depth": 1, "max_pages": 100, "wait_for_host_s": 1}
        async with asyncio.timeout(PATIENCE_S):
            result = await crawl(parameters, heard)
    got = read(heard, served)
    assert set(got.values()) == {1} and 0 < len(got) < len(EVERY)
    assert result["metrics"]["pages_failed"] == len(EVERY) - len(got)
    assert result["metrics"]["errors"] == {"network": len(EVERY) - len(got)}
    (note,) = result["notes"]
    assert note == f"{served.host} did not answer for 1 s: {len(EVERY) - len(got)} pages failed by that"


async def test_other_hosts_go_on_meanwhile() -> None:
    class Told(Heard):
        def log(self, message: str, level: str) -> None:
            if "did not answer for" in message:
                read_by_then.update(read(self, other))
            super().log(message, level)

    heard, read_by_then = Told(), Counter[str]()
    async with restarting(600.0, stops_after=10) as served, restarting(stops_after=0) as other:
        urls = [f"{served.url}/", f"{other.url}/"]
        # As many at once as a crawl may have: those that wait must not keep others from their turn.
        parameters = {"urls": urls, "depth": 1, "max_pages": 200, "wait_for_host_s": 8, "concurrency": 64}
        await crawl(parameters, heard)
    assert read_by_then & EVERY == EVERY
    assert any(f"{served.host} did not answer for 8 s" in line for _, line in heard.lines)


async def test_the_time_of_a_crawl_ends_the_wait() -> None:
    heard = Heard()
    async with restarting(600.0) as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100, "max_seconds": 4}, heard)
    assert result["metrics"]["stopped_by"] == "max_seconds"
    assert any("had not answered for" in note for note in result["notes"])
    assert result["metrics"]["pages_failed"] == 0


async def test_without_patience_a_connection_that_fails_costs_a_try() -> None:
    async with restarting() as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100, "wait_for_host_s": 0})
    assert result["metrics"]["pages_failed"] > 0


async def test_a_host_that_never_answered_fails_at_once() -> None:
    async with restarting() as served:
        pass
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(TaskError, match="Connection refused"):
            await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100})
