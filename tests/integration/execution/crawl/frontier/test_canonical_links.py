"""Pages that name others as canonical, on real sites, on one node and over two: the same pages are kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.frontier.canonical_links import OTHER_CANONICAL
from tests.integration.execution.crawl.shared.spread_kit import Spread
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, Site, crawl, site
from tests.unit.store.store_kit import sqlite_kit

pytestmark = pytest.mark.integration


def page(canonical: str | None = None, *links: str) -> str:
    head = "" if canonical is None else f'<head><link rel="canonical" href="{canonical}"></head>'
    return f"{head}<body>" + "".join(f'<a href="{link}">x</a>' for link in links)


async def back(_request: web.Request) -> web.Response:
    raise web.HTTPMovedPermanently("/slash/")


async def robots(_request: web.Request) -> web.Response:
    return web.Response(text="User-agent: *\nDisallow: /private\n")


LINKS = ("/p?sort=1", "/p?sort=2", "/p", "/a", "/b", "/lone", "/slash", "/slash/", "/off", "/gone", "/hidden", "/first")
SITE: dict[str, Answer | str] = {
    "/": page("/", *LINKS),
    # One page under three names, of which one leads on to what the others do not.
    "/p": page("/p", "/only-here"),
    "/only-here": page(),
    # A circle; a page whose name nothing leads to; names that redirect back, are elsewhere, fail, or are not allowed.
    "/a": page("/b"),
    "/b": page("/a"),
    "/lone": page("/alone"),
    "/alone": page(),
    "/slash": back,
    "/slash/": page("/slash"),
    "/off": page("http://other.test/off"),
    "/gone": page("/missing"),
    "/hidden": page("/private"),
    "/private": page(),
    "/first": page("/second"),
    "/second": page("/third"),
    "/third": page(),
    "/robots.txt": robots,
}
KEPT = Counter(["/", "/p", "/only-here", "/a", "/alone", "/slash/", "/off", "/gone", "/hidden", "/third"])


def asked(served: Site, **more: Any) -> dict[str, Any]:
    return {"url": f"{served.url}/", "depth": 3, "max_pages": 100, "follow": {"obey_canonical": True}, **more}


async def test_each_page_is_kept_under_the_name_it_gives_itself() -> None:
    heard = Heard()
    async with site(SITE) as served:
        result = await crawl(asked(served), heard)
    assert Counter(item["url"].removeprefix(served.url) for item in heard.items) == KEPT
    assert result["metrics"]["errors"] == {}
    # Two of /p, /b, /lone, /first and /second.
    assert result["metrics"]["links_left_out"] == {OTHER_CANONICAL: 6}
    assert "6 pages were left for those that they name as canonical" in result["notes"]


async def test_without_it_every_name_is_a_page() -> None:
    heard = Heard()
    async with site(SITE) as served:
        await crawl(asked(served, follow={}), heard)
    found = {item["url"].removeprefix(served.url) for item in heard.items}
    assert {"/p?sort=1", "/p?sort=2", "/p", "/a", "/b", "/lone", "/first"} <= found and "/alone" not in found


async def test_over_two_members_the_same_are_kept(tmp_path: Path) -> None:
    async with site(SITE) as served, sqlite_kit(tmp_path) as kit:
        spread = Spread(kit, asked(served), 2)
        await spread.run()
        items, state = await spread.items(), await spread.state()
    assert Counter(item["url"].removeprefix(served.url) for item in items) == KEPT
    assert (state.counts.pages, state.counts.failed) == (len(KEPT), 0)


async def test_a_start_is_left_as_well_and_what_it_names_is_in_its_place() -> None:
    heard = Heard()
    async with site(SITE) as served:
        result = await crawl({"url": f"{served.url}/lone", "follow": {"obey_canonical": True}}, heard)
    assert [item["url"].removeprefix(served.url) for item in heard.items] == ["/alone"]
    metrics = result["metrics"]
    assert (metrics["pages_crawled"], metrics["pages_moved"]) == (1, 1)
