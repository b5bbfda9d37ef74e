"""One crawl over many members: the same pages and items whoever does it, and whoever is lost on the way."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawlfleet.shop.server import RunningShop, start_shop
from crawlfleet.testing.factories import Kit
from tests.integration.spread_kit import Spread
from tests.unit.crawl_kit import Answer, site
from tests.unit.store_kit import sqlite_kit

SELECTORS = {"title": ".product .title", "price": ".product .price"}


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


@pytest.fixture
async def shop() -> AsyncIterator[RunningShop]:
    shop = await start_shop(products=150)
    yield shop
    await shop.close()


def asked(shop: RunningShop, **more: Any) -> dict[str, Any]:
    return {"url": f"{shop.url}/", "depth": 50, "max_pages": 5_000, "concurrency": 16, **more}


async def test_one_member_and_four_find_the_same(kit: Kit, shop: RunningShop) -> None:
    found, crawls = [], [Spread(kit, asked(shop), members) for members in (1, 4)]
    for crawl in crawls:
        await crawl.run()
        found.append(await crawl.items())
        state = await crawl.state()
        assert (state.queued, state.leased, state.stopped_by) == (0, 0, None)
        assert state.counts.items == state.counts.pages == len(found[-1])
        assert sum(result["metrics"]["pages_crawled"] for result in crawl.results) == state.counts.pages
    assert found[0] == found[1]
    urls = [item["_url"] for item in found[0]]
    assert len(urls) == len(set(urls)) > 150
    # All of them took part.
    assert all(result["metrics"]["pages_crawled"] for result in crawls[1].results)


async def test_a_member_that_is_lost_changes_nothing(kit: Kit, shop: RunningShop) -> None:
    whole = Spread(kit, asked(shop), 2)
    await whole.run()
    broken = Spread(kit, asked(shop), 2)
    await broken.run(lose_after=4)
    assert await broken.items() == await whole.items()


async def test_records_of_pages_are_the_same_whoever_reads_them(kit: Kit, shop: RunningShop) -> None:
    found = []
    for members in (1, 3):
        crawl = Spread(kit, asked(shop, selectors=SELECTORS), members)
        await crawl.run()
        found.append(await crawl.items())
    assert found[0] == found[1]


async def test_pages_are_exactly_as_many_as_were_asked_for(kit: Kit, shop: RunningShop) -> None:
    crawl = Spread(kit, asked(shop, max_pages=57), 4)
    await crawl.run()
    state = await crawl.state()
    assert (state.counts.pages, state.stopped_by) == (57, "max_pages")
    assert len({item["_url"] for item in await crawl.items()}) == 57


async def test_a_depth_is_kept_as_by_one(kit: Kit, shop: RunningShop) -> None:
    found = []
    for members in (1, 4):
        crawl = Spread(kit, asked(shop, depth=2), members)
        await crawl.run()
        found.append(await crawl.items())
    assert found[0] == found[1]


async def test_sitemaps_are_read_by_members(kit: Kit, shop: RunningShop) -> None:
    crawl = Spread(kit, asked(shop, depth=0, sitemaps=True), 3)
    await crawl.run()
    assert (await crawl.state()).counts.pages > 100


async def test_where_a_start_url_leads_all_members_follow(kit: Kit) -> None:
    async def moved(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"http://localhost:{request.url.port}/home")

    pages: dict[str, Answer | str] = {"/": moved}
    links = "".join(f"<a href=/{n}>{n}</a>" for n in range(40))
    pages["/home"] = f"<title>home</title>{links}"
    pages |= {f"/{n}": f"<title>{n}</title><a href=/{n}/below>x</a>" for n in range(40)}
    pages |= {f"/{n}/below": f"<title>below {n}</title>" for n in range(40)}
    async with site(pages) as served:
        crawl = Spread(kit, {"url": f"{served.url}/", "depth": 3, "max_pages": 500, "respect_robots": False}, 4)
        await crawl.run()
    assert len(await crawl.items()) == 81
    assert (await crawl.state()).counts.moved == 1


async def test_a_start_that_fails_ends_the_crawl_without_pages(kit: Kit) -> None:
    async with site({}) as served:
        crawl = Spread(kit, {"url": f"{served.url}/gone", "depth": 3, "max_pages": 50}, 2)
        await crawl.run()
    state = await crawl.state()
    assert (state.counts.pages, state.counts.failed, state.queued) == (0, 1, 0)
    assert state.finished_at is not None
