"""Requests besides visits: pages looked at, sitemaps and probes, with robots.txt and pacing as for visits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.engine.collected_items import CollectedItems
from crawlfleet.execution.crawl.engine.pacing import HostPacing
from crawlfleet.execution.crawl.engine.plan import make_crawl_plan
from crawlfleet.execution.crawl.engine.side_requests import SideRequests
from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.frontier.frontier import Frontier
from crawlfleet.execution.crawl.frontier.link_filter import LinkFilter
from crawlfleet.execution.crawl.parse.parser_dispatch import PageParser
from crawlfleet.execution.page_failures import PageFailed, PageSkipped
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, Site, fetcher, site

ROBOTS = "User-agent: *\nDisallow: /private\nSitemap: /map.xml\n"


class Side(NamedTuple):
    requests: SideRequests
    frontier: Frontier
    served: Site
    heard: Heard


async def serve_robots(_request: web.Request) -> web.Response:
    return web.Response(text=ROBOTS)


async def serve_map(_request: web.Request) -> web.Response:
    text = "<urlset><url><loc>/a</loc></url><url><loc>/b</loc></url></urlset>"
    return web.Response(text=text, content_type="application/xml")


async def serve_picture(_request: web.Request) -> web.Response:
    return web.Response(body=b"\x89PNG", content_type="image/png")


PAGES: Mapping[str, Answer | str] = {
    "/robots.txt": serve_robots,
    "/map.xml": serve_map,
    "/picture": serve_picture,
    "/page": "<title>A page</title><a href=/next>next</a>",
    "/private": "<title>Not for robots</title>",
}


@asynccontextmanager
async def side_requests(**parameters: Any) -> AsyncIterator[Side]:
    heard = Heard()
    async with site(PAGES) as served, fetcher() as ours:
        plan = make_crawl_plan({"url": f"{served.url}/page", "sitemaps": True, **parameters})
        frontier = Frontier()
        link_filter = LinkFilter(plan.follow_config, frontier, depth=plan.depth)
        link_filter.add_start_urls(plan.urls)
        reader = PageParser(plan.extraction)
        try:
            requests = SideRequests(
                fetcher=ours,
                reader=reader,
                robots=Robots(ours, user_agent=plan.user_agent, on_delay=lambda *_: None, log=heard.log),
                respect_robots=plan.respect_robots,
                pacing=HostPacing(concurrency=1),
                link_filter=link_filter,
                collected_items=CollectedItems(heard.item, plan.extraction),
                log=heard.log,
            )
            yield Side(requests, frontier, served, heard)
        finally:
            await reader.close()


async def test_a_page_is_looked_at_with_its_links_and_without_a_visit() -> None:
    async with side_requests() as side:
        facts = await side.requests.fetch_page_facts(f"{side.served.url}/page")
        assert facts.title == "A page"
        assert side.served.hits == ["/robots.txt", "/page"]
        assert side.heard.items == []


async def test_a_page_that_robots_may_not_read_is_not_looked_at() -> None:
    async with side_requests() as side:
        with pytest.raises(PageFailed) as failed:
            await side.requests.fetch_page_facts(f"{side.served.url}/private")
        assert failed.value.kind == "robots"
        assert side.served.hits == ["/robots.txt"]
    async with side_requests(respect_robots=False) as side:
        facts = await side.requests.fetch_page_facts(f"{side.served.url}/private")
        assert facts.title == "Not for robots"
        assert side.served.hits == ["/private"]


async def test_what_is_no_page_is_not_parsed() -> None:
    async with side_requests() as side:
        with pytest.raises(PageSkipped, match="image/png is not read"):
            await side.requests.fetch_page_facts(f"{side.served.url}/picture")


async def test_a_robots_txt_names_sitemaps_and_a_sitemap_names_pages() -> None:
    async with side_requests() as side:
        links = []
        while (link := side.frontier.pop_link(lambda _host: True)) is not None:
            links.append(link)
            if link.is_sitemap:
                assert await side.requests.read_sitemap(link) == 0
        paths = [link.url.removeprefix(side.served.url) for link in links]
        assert sorted(paths) == ["/a", "/b", "/map.xml", "/page", "/robots.txt"]
        assert ("info", f"sitemap {side.served.url}/map.xml: 2 entries") in side.heard.lines


async def test_a_host_answers_a_probe_with_any_status_or_not_at_all() -> None:
    async with side_requests() as side:
        assert await side.requests.probe_host(f"{side.served.url}/page")
        assert await side.requests.probe_host(f"{side.served.url}/nothing")
        assert not await side.requests.probe_host("http://127.0.0.1:1/")
