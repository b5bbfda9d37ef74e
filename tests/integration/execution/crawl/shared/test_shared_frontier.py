"""One crawl over many members: the same pages and items whoever does it, and whoever is lost on the way."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.engine import block_tracker
from testkit.factories import Kit
from testkit.site import RunningSite, start_shop
from tests.integration.execution.crawl.shared.spread_kit import Spread
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, site
from tests.unit.store.store_kit import sqlite_kit

SELECTORS = {"title": ".product .title", "price": ".product .price"}


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
async def shop() -> AsyncIterator[RunningSite]:
    shop = await start_shop(products=150)
    yield shop
    await shop.close()


def asked(shop: RunningSite, **more: Any) -> dict[str, Any]:
    return {"url": f"{shop.url}/", "depth": 50, "max_pages": 5_000, "concurrency": 16, **more}


async def test_one_member_and_four_find_the_same(kit: Kit, shop: RunningSite) -> None:
    found, crawls = [], [Spread(kit, asked(shop), members) for members in (1, 4)]
    for spread in crawls:
        await spread.run()
        found.append(await spread.items())
        state = await spread.state()
        assert (state.queued, state.leased, state.stopped_by) == (0, 0, None)
        assert state.counts.items == state.counts.pages == len(found[-1])
        assert sum(result["metrics"]["pages_crawled"] for result in spread.results) == state.counts.pages
    assert found[0] == found[1]
    urls = [item["_url"] for item in found[0]]
    assert len(urls) == len(set(urls)) > 150
    # All of them took part.
    assert all(result["metrics"]["pages_crawled"] for result in crawls[1].results)


async def test_a_member_that_is_lost_changes_nothing(kit: Kit, shop: RunningSite) -> None:
    whole = Spread(kit, asked(shop), 2)
    await whole.run()
    broken = Spread(kit, asked(shop), 2)
    await broken.run(lose_after=4)
    assert await broken.items() == await whole.items()


async def test_records_of_pages_are_the_same_whoever_reads_them(kit: Kit, shop: RunningSite) -> None:
    found = []
    for members in (1, 3):
        spread = Spread(kit, asked(shop, selectors=SELECTORS), members)
        await spread.run()
        found.append(await spread.items())
    assert found[0] == found[1]


async def test_a_plan_finds_the_same_on_many_nodes_as_on_one(kit: Kit, shop: RunningSite) -> None:
    fields = {"title": ".title", "price": {"selector": ".price", "type": "price"}}
    plan = asked(shop, extract={"products": {"container": ".product", "fields": fields}}, page=["metadata"])
    heard = Heard()
    alone = await crawl(plan, heard)
    spread = Spread(kit, plan, 3)
    await spread.run()
    assert await spread.items() == sorted(heard.items, key=lambda item: json.dumps(item, sort_keys=True))
    assert (await spread.state()).counts.items == alone["items"] > 150


async def test_pages_are_exactly_as_many_as_were_asked_for(kit: Kit, shop: RunningSite) -> None:
    spread = Spread(kit, asked(shop, max_pages=57), 4)
    await spread.run()
    state = await spread.state()
    assert (state.counts.pages, state.stopped_by) == (57, "max_pages")
    assert len({item["_url"] for item in await spread.items()}) == 57


async def test_a_depth_is_kept_as_by_one(kit: Kit, shop: RunningSite) -> None:
    found = []
    for members in (1, 4):
        spread = Spread(kit, asked(shop, depth=2), members)
        await spread.run()
        found.append(await spread.items())
    assert found[0] == found[1]


async def test_sitemaps_are_read_by_members(kit: Kit, shop: RunningSite) -> None:
    spread = Spread(kit, asked(shop, depth=0, sitemaps=True), 3)
    await spread.run()
    assert (await spread.state()).counts.pages > 100


async def test_where_a_start_url_leads_all_members_follow(kit: Kit) -> None:
    async def moved(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://localhost:{request.url.port}/home")

    pages: dict[str, Answer | str] = {"/": moved}
    links = "".join(f"<a href=/{n}>{n}</a>" for n in range(40))
    pages["/home"] = f"<title>home</title>{links}"
    pages |= {f"/{n}": f"<title>{n}</title><a href=/{n}/below>x</a>" for n in range(40)}
    pages |= {f"/{n}/below": f"<title>below {n}</title>" for n in range(40)}
    async with site(pages) as served:
        spread = Spread(kit, {"url": f"{served.url}/", "depth": 3, "max_pages": 500, "respect_robots": False}, 4)
        await spread.run()
    assert len(await spread.items()) == 81
    assert (await spread.state()).counts.moved == 1


async def test_a_page_that_is_reached_with_a_cookie_is_there_once(kit: Kit) -> None:
    async def greets(request: web.Request) -> web.Response:
        if "known" in request.cookies:
            return web.Response(text="<title>greeted</title>", content_type="text/html")
        answer = web.HTTPFound("/home")
        answer.set_cookie("known", "yes")
        raise answer

    pages: dict[str, Answer | str] = {f"/in/{n}": greets for n in range(20)}
    pages |= {"/": "".join(f"<a href=/in/{n}>{n}</a>" for n in range(20)), "/home": "<title>home</title>"}
    async with site(pages) as served:
        spread = Spread(kit, {"url": f"{served.url}/", "depth": 3, "max_pages": 500}, 4)
        await spread.run()
    urls = [item["_url"] for item in await spread.items()]
    assert len(urls) == len(set(urls))
    assert urls.count(f"{served.url}/home") == 1


async def test_a_host_that_lets_nothing_through_is_left_and_the_crawl_ends(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_tracker, "MAX_REFUSALS", 4)

    async def refuses(_request: web.Request) -> web.Response:
        raise web.HTTPForbidden

    pages: dict[str, Answer | str] = {f"/{n}": refuses for n in range(60)}
    pages["/"] = "".join(f"<a href=/{n}>{n}</a>" for n in range(60))
    async with site(pages) as served:
        spread = Spread(kit, {"url": f"{served.url}/", "depth": 3, "max_pages": 500}, 2)
        await spread.run()
    state = await spread.state()
    counts = state.counts
    assert (counts.pages, counts.failed + counts.skipped) == (1, 60)
    assert counts.skipped > 0
    assert (state.queued, state.leased) == (0, 0)


async def test_a_start_that_fails_ends_the_crawl_without_pages(kit: Kit) -> None:
    async with site({}) as served:
        spread = Spread(kit, {"url": f"{served.url}/gone", "depth": 3, "max_pages": 50}, 2)
        await spread.run()
    state = await spread.state()
    assert (state.counts.pages, state.counts.failed, state.queued) == (0, 1, 0)
    assert state.finished_at is not None
