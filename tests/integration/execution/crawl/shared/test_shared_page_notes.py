"""A crawl over many members that names an earlier one says the same of every page as a crawl on one node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from testkit.factories import Kit
from tests.integration.execution.crawl.shared.spread_kit import Spread
from tests.unit.execution.crawl.crawl_kit import site
from tests.unit.execution.crawl.record.test_page_notes import SELECTORS, SINCE, links, shop
from tests.unit.store.store_kit import sqlite_kit


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with sqlite_kit(tmp_path) as kit:
        yield kit


async def told(spread: Spread, url: str) -> dict[str, str | None]:
    notes = [item for item in await spread.items() if "_page" in item]
    found = {item["_page"].removeprefix(url): item.get("change") for item in notes}
    assert len(found) == len(notes)
    return found


async def titles(spread: Spread) -> list[str]:
    return sorted(value for item in await spread.items() if "_page" not in item for value in item["title"])


async def crawled(
    kit: Kit, asked: dict[str, Any], members: int, earlier: Spread | None = None, lose_after: int | None = None
) -> Spread:
    spread = Spread(kit, asked, members, earlier=earlier)
    await spread.run(lose_after=lose_after)
    return spread


@pytest.mark.parametrize(("members", "lose_after"), [(1, None), (3, None), (2, 3), (2, 6)])
async def test_what_has_become_of_each_page(kit: Kit, members: int, lose_after: int | None) -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2, **SELECTORS}
        first = await crawled(kit, {**asked, "keep_pages": True}, members)
        assert await told(first, served.url) == dict.fromkeys(pages.texts)
        assert (await first.state()).counts.items == len(await titles(first)) == 6
        pages.texts["/b"] = "<h1>b2</h1>" + links("/new")
        pages.texts["/new"] = "<h1>new</h1>"
        del pages.texts["/d"]
        again = {**asked, "since": SINCE}
        second = await crawled(kit, again, members, first, lose_after)
        expected = {
            "/": "unchanged",
            "/a": "unchanged",
            "/b": "changed",
            "/c": "unchanged",
            "/d": "gone",
            "/deep": "unchanged",
            "/new": "new",
        }
        assert await told(second, served.url) == expected
        assert await titles(second) == ["b2", "new"]
        counts = (await second.state()).counts
        assert counts[-4:] == (1, 1, 4, 1)
        assert (await second.state()).stopped_by is None
        # What it noted is enough for the next one.
        third = await crawled(kit, again, members, second)
        assert ((await third.state()).counts[-4:], await titles(third)) == ((0, 0, 6, 0), [])
        kept = await crawled(kit, {**again, "keep_unchanged": True}, members, second)
        assert len(await titles(kept)) == 6


async def test_one_that_was_stopped_calls_nothing_gone(kit: Kit) -> None:
    async with site(shop()) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first = await crawled(kit, {**asked, "keep_pages": True}, 2)
        second = await crawled(kit, {**asked, "since": SINCE, "max_pages": 2}, 2, first)
        state = await second.state()
        assert (state.counts.pages_gone, state.counts.pages, state.stopped_by) == (0, 2, "max_pages")


async def test_a_limit_that_is_just_reached_stops_nothing(kit: Kit) -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first = await crawled(kit, {**asked, "keep_pages": True}, 2)
        del pages.texts["/d"]
        second = await crawled(kit, {**asked, "since": SINCE, "max_pages": 5}, 2, first)
        state = await second.state()
        assert (state.counts.pages, state.counts.pages_gone, state.stopped_by) == (5, 1, None)


async def test_a_page_that_only_fails_is_not_gone(kit: Kit) -> None:
    pages = shop()
    async with site(pages) as served:
        asked: dict[str, Any] = {"url": f"{served.url}/", "depth": 2}
        first = await crawled(kit, {**asked, "keep_pages": True}, 2)

        async def fail(_: web.Request) -> web.Response:
            return web.Response(status=500)

        pages["/c"] = fail
        second = await crawled(kit, {**asked, "since": SINCE}, 2, first)
        assert (await told(second, served.url))["/c"] == "failed"
        assert (await second.state()).counts.pages_gone == 0
        # The one after it goes by what was known before, although the start page is the same and not read.
        pages["/c"] = "<h1>c</h1>"
        third = await crawled(kit, {**asked, "since": SINCE}, 2, second)
        assert (await told(third, served.url))["/c"] == "unchanged"
        assert "/" in pages.not_modified
