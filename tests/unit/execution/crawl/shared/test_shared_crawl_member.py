"""A member of a crawl over many nodes asks when there is something to say or to get, and not in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from crawlfleet.execution.crawl.engine.crawl import Crawl
from crawlfleet.execution.crawl.frontier.frontier import Link
from crawlfleet.execution.crawl.shared.shared_crawl_member import LOOK_S, CrawlMember
from crawlfleet.execution.crawl.shared.shared_frontier import SharedFrontier
from crawlfleet.model.crawl import CrawlUrl
from crawlfleet.wire.crawl import CrawlDown, CrawlUp
from tests.unit.execution.agent.agent_kit import virtual

SPENT_S = 0.4


class Visits:
    """Instead of an engine: takes its time for each URL."""

    def __init__(self, frontier: SharedFrontier) -> None:
        self._frontier = frontier
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    def add_member_urls(self, urls: Iterable[str]) -> None:
        pass

    async def run(self) -> None:
        while self._frontier or self._frontier.is_open:
            link: Link | None = self._frontier.pop_link(lambda _: True)
            if link is None:
                self._woken.clear()
                await self._woken.wait()
                continue
            await asyncio.sleep(SPENT_S)
            self._frontier.note_ending(link, "read", 1)


class Master:
    def __init__(self, *answers: CrawlDown) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[int | None, list[int]]] = []
        """What was reported, and what was held."""

    async def report_crawl(self, body: bytes) -> bytes:
        up = msgspec.json.decode(body, type=CrawlUp)
        self.asked.append((None if up.report is None else up.report.number, up.held))
        return msgspec.json.encode(self._answers.pop(0) if self._answers else CrawlDown("done"))

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        raise AssertionError(endpoint)


async def crawled(master: Master) -> None:
    async def emit(_: Mapping[str, Any]) -> None:
        pass

    frontier = SharedFrontier()
    await CrawlMember(cast("Crawl", Visits(frontier)), frontier, master, emit).run()


def chunk(number: int, *, has_more: bool) -> CrawlDown:
    return CrawlDown("chunk", number, [CrawlUrl(f"http://a.test/{number}", 0)], has_more)


@virtual
async def test_the_next_chunk_is_asked_for_while_there_is_more() -> None:
    master = Master(chunk(1, has_more=True), chunk(2, has_more=False))
    await crawled(master)
    assert master.asked == [(None, []), (None, [1]), (1, [2]), (2, [])]


@virtual
async def test_where_nothing_is_left_nobody_asks_in_vain() -> None:
    master = Master(chunk(1, has_more=False), chunk(2, has_more=False))
    await crawled(master)
    assert master.asked == [(None, []), (1, []), (2, [])]


@virtual
async def test_one_that_works_for_long_looks_again() -> None:
    many = [CrawlUrl(f"http://a.test/{number}", 0) for number in range(round(2.5 * LOOK_S / SPENT_S))]
    master = Master(CrawlDown("chunk", 1, many, has_more=False), CrawlDown("wait"))
    await crawled(master)
    assert master.asked[:2] == [(None, []), (None, [1])]
