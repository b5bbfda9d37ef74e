"""A crawl behind a gate: it asks with a grant only, tells of refusals, and gives up a host that is away for long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.budget.granted_gate import GrantedGate
from crawlfleet.execution.budget.host_gate import HostUsage, ProcessShare
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.sdk import TaskContext, TryLater
from crawlfleet.model.host import HostNoteKind
from crawlfleet.ports.clock import boot_time
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Heard, Site, site

PAGE = '<a href="/1">1</a> <a href="/2">2</a> <a href="/3">3</a>'


class Agent:
    """Grants what is wanted, as it is told to."""

    def __init__(self, rate: int = 100) -> None:
        self.gate = GrantedGate(self)
        self.rate = rate
        self.version = 0
        self.wanted: set[str] = set()
        self.heard: list[tuple[int, int]] = []
        self.is_giving = True
        self.has_heard = asyncio.Event()

    def report_usage(self, hosts: Sequence[HostUsage]) -> None:
        self.wanted = {use.host for use in hosts if use.wanted}
        if self.wanted:
            self.has_heard.set()
        if self.is_giving:
            self.give()

    def give(self, away_s: float = 0.0) -> None:
        self.version += 1
        now = boot_time()
        rate = 0 if away_s else self.rate
        self.gate.apply_grants(
            self.version, now + 60, [ProcessShare(host, rate, rate, 0, now + away_s) for host in self.wanted]
        )

    def acknowledge_grants(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        pass

    def report_host_note(self, host: str, kind: int, span_ms: int) -> None:
        self.heard.append((kind, span_ms))


async def crawl(agent: Agent, served: Site, **parameters: Any) -> dict[str, Any]:
    context = TaskContext(
        Heard(),
        task_id="task-1",
        execution_id="exec-1",
        task_type="web_crawl",
        parameters={"url": served.url, "depth": 1, **parameters},
        allow_hosts=LOOPBACK,
        gate=agent.gate,
    )
    result: dict[str, Any] = await WebCrawl().run(context)
    return result


async def test_nothing_is_asked_before_there_is_a_grant() -> None:
    agent = Agent()
    agent.is_giving = False
    async with site({"/": PAGE, "/1": "", "/2": "", "/3": ""}) as served:
        crawling = asyncio.create_task(crawl(agent, served))
        await agent.has_heard.wait()
        assert (agent.wanted, served.hits) == ({f"127.0.0.1:{served.port}"}, [])
        agent.give()
        result = await crawling
    assert result["metrics"]["pages_crawled"] == 4
    assert served.hits[0] == "/robots.txt"


async def test_robots_and_redirects_are_requests_as_well() -> None:
    async def moved(_: web.Request) -> web.Response:
        raise web.HTTPFound("/there")

    agent = Agent(rate=20)
    async with site({"/": moved, "/there": "x"}) as served:
        began = time.monotonic()
        await crawl(agent, served, depth=0)
    assert served.hits == ["/robots.txt", "/", "/there"]
    assert time.monotonic() - began >= 2 * 0.05


async def test_a_refused_page_is_told_and_asked_again_when_the_host_is_back() -> None:
    refusals = iter([True])

    async def busy(_: web.Request) -> web.Response:
        if next(refusals, False):
            return web.Response(status=429, headers={"Retry-After": "1"})
        return web.Response(text="x", content_type="text/html")

    agent = Agent()
    async with site({"/": busy}) as served:
        began = time.monotonic()
        result = await crawl(agent, served, depth=0)
    assert agent.heard == [(HostNoteKind.TOO_MANY, 1_000)]
    assert (result["metrics"]["pages_crawled"], result["metrics"]["pages_failed"]) == (1, 0)
    assert time.monotonic() - began >= 1.0


async def test_a_host_that_is_away_for_long_is_tried_again_later() -> None:
    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=503, headers={"Retry-After": "900"})

    agent = Agent()
    async with site({"/robots.txt": "", "/": busy}) as served:
        with pytest.raises(TryLater, match="in back-off") as caught:
            await crawl(agent, served, depth=0)
    assert 890 < caught.value.after_s <= 900
    assert served.hits == ["/robots.txt", "/"]


async def test_a_host_that_was_away_before_is_not_even_asked() -> None:
    agent = Agent()
    agent.is_giving = False
    async with site({"/": PAGE}) as served:
        crawling = asyncio.create_task(crawl(agent, served))
        await agent.has_heard.wait()
        agent.give(away_s=300.0)
        with pytest.raises(TryLater):
            await crawling
    assert served.hits == []


async def test_a_crawl_delay_is_told() -> None:
    async def robots(_: web.Request) -> web.Response:
        return web.Response(text="User-agent: *\nCrawl-delay: 0.2\n")

    agent = Agent()
    async with site({"/robots.txt": robots, "/": "x"}) as served:
        await crawl(agent, served, depth=0)
    assert agent.heard == [(HostNoteKind.CRAWL_DELAY, 200)]
