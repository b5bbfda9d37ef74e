"""Behaviours of the nasty site that are about more than one page: sitemaps, robots.txt, traps, and rates."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from crawlfleet.execution.sdk import TaskError
from testkit.patience import promised
from testkit.site import SiteProcess, site_process
from testkit.site.nasty.behaviour_table import FAMILIES
from tests.unit.execution.crawl.crawl_kit import Heard, crawl

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

BEHAVIOURS = {family.name: {it.path.rpartition("/")[2] for it in family.behaviours} for family in FAMILIES}
WITHIN_S = 20.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nasty() -> AsyncIterator[SiteProcess]:
    async with site_process("--products", "60") as site:
        yield site


class Crawled(NamedTuple):
    pages: Counter[str]
    result: dict[str, Any]
    lines: list[tuple[str, str]]


async def crawled(nasty: SiteProcess, **parameters: Any) -> Crawled:
    heard, began = Heard(), time.monotonic()
    result = await crawl({"max_pages": 1_000, **parameters}, heard, allow=frozenset({nasty.host}))
    assert time.monotonic() - began < promised(WITHIN_S)
    pages = Counter(item["url"].removeprefix(nasty.url) for item in heard.items)
    assert set(pages.values()) <= {1}
    return Crawled(pages, result, heard.lines)


async def asked(nasty: SiteProcess) -> Counter[str]:
    return Counter(request["path"] for request in (await nasty.log())["asked"])


# -- sitemaps: which pages they give, and what is said of them

SITEMAPS: dict[str, tuple[int, str]] = {
    "good": (3, ""),
    "gzip": (3, ""),
    "gzip-encoded": (3, ""),
    "text": (3, ""),
    "prefixed": (3, ""),
    "nested": (3, ""),
    "loop": (3, ""),
    "self": (0, ""),
    "endless": (0, "levels deep"),
    "big": (99, ""),
    "foreign": (1, ""),
    "broken": (2, "broken"),
    "cut-gzip": (1, "ends too early"),
    "lastmod": (8, ""),
    "entities": (0, "entities"),
    "html": (0, ""),
    "404": (0, "404"),
    "empty": (0, ""),
    "bomb": (0, ""),
}


@pytest.mark.parametrize("name", SITEMAPS)
async def test_sitemaps(nasty: SiteProcess, name: str) -> None:
    count, note = SITEMAPS[name]
    got = await crawled(nasty, url=f"{nasty.url}/about", sitemaps=[f"{nasty.url}/nasty/sitemap/{name}"], max_pages=100)
    assert got.pages["/about"] == 1
    assert len(got.pages) - 1 == count, got.pages
    notes = " ".join(got.result.get("notes", ()))
    assert note in notes, notes
    # A sitemap is no page, and one that fails is no failed page.
    assert got.result["metrics"]["errors"] == {}


# -- robots.txt: what is asked for besides it

PROBED = ("/about", "/help", "/products/1", "/products/10", "/products/2", "/products/50/reviews")
ALL, NONE = frozenset(PROBED), frozenset[str]()
RULED = ALL - {"/products/1"}
ROBOTS: dict[str, tuple[frozenset[str], str]] = {
    **dict.fromkeys(("404", "403", "401", "empty", "html", "binary", "slow-pattern", "redirect-loop"), (ALL, "")),
    "429": (NONE, "blocked"),
    "500": (NONE, "http"),
    "503": (NONE, "http"),
    "reset": (NONE, "network"),
    "nothing": (NONE, "policy"),
    "rules": (RULED, ""),
    "redirect": (RULED, ""),
    "redirect-2": (RULED, ""),
    "huge": (RULED - {"/products/10"}, ""),
    "endless": (RULED - {"/products/10"}, ""),
    "slow": (RULED, ""),
    "wildcards": (ALL - {"/products/50/reviews"}, ""),
    "agents": (ALL - {"/about", "/help"}, ""),
    "odd": (ALL - {"/about", "/help"}, ""),
    "redirect-private": (NONE, "policy"),
}
OTHER_ROBOTS = {"utf-16", "delay", "long-delay", "stall", "sitemaps"}
"""With tests of their own."""


@pytest.mark.parametrize("variant", ROBOTS)
async def test_robots(nasty: SiteProcess, variant: str) -> None:
    allowed, error = ROBOTS[variant]
    await nasty.set(robots=variant)
    await nasty.clear()
    urls = [f"{nasty.url}{path}" for path in PROBED]
    if error:
        with pytest.raises(TaskError) as told:
            await crawled(nasty, urls=urls)
        assert told.value.error == error
        assert "robots.txt" in str(told.value) or error == "policy"
    else:
        assert set((await crawled(nasty, urls=urls)).pages) == allowed
    assert {path for path in await asked(nasty) if path in ALL} == allowed


async def test_robots_in_another_alphabet_fail_nothing(nasty: SiteProcess) -> None:
    await nasty.set(robots="utf-16")
    assert (await crawled(nasty, urls=[f"{nasty.url}/about", f"{nasty.url}/products/2"])).pages["/about"] == 1


async def test_a_silent_robots_ends_with_the_crawl(nasty: SiteProcess) -> None:
    await nasty.set(robots="stall")
    await nasty.clear()
    with pytest.raises(TaskError) as told:
        await crawled(nasty, url=f"{nasty.url}/about", max_seconds=1)
    assert told.value.error == "timeout"
    assert set(await asked(nasty)) == {"/robots.txt"}


async def test_a_crawl_delay_is_kept_and_a_long_one_is_capped(nasty: SiteProcess) -> None:
    urls = [f"{nasty.url}/products/{number}" for number in (1, 2, 3)]
    await nasty.set(robots="delay")
    await nasty.clear()
    await crawled(nasty, urls=urls)
    at = [request["at"] for request in (await nasty.log(under="/products/"))["asked"]]
    # Half a second from turn to turn; the way to the site is longer for one than for the next.
    assert min(later - sooner for sooner, later in pairwise(at)) >= 0.4
    assert at[-1] - at[0] >= 0.9
    await nasty.set(robots="long-delay")
    got = await crawled(nasty, urls=urls, max_seconds=1)
    assert (len(got.pages), got.result["metrics"]["stopped_by"]) == (1, "max_seconds")
    assert any("60 s are kept" in line for _, line in got.lines)


async def test_all_bad_sitemaps_at_once(nasty: SiteProcess) -> None:
    await nasty.set(robots="sitemaps")
    allowed = {"allow": ["/about$", "/outlet/"]}
    # Without the fifty thousand pages of the big one: which of all those come first is a race.
    got = await crawled(nasty, url=f"{nasty.url}/about", sitemaps=True, follow=allowed)
    assert got.pages.keys() == {"/about", "/outlet/1", "/outlet/2", "/outlet/3"}


# -- traps: all of them end, and something is said of each

GUARDS = {"calendar": 20, "session": 20, "query": 20, "id": 20, "pattern": 50}
TRAPS: dict[str, tuple[int, str]] = {
    "calendar": (100, "calendar"),
    "session": (4, ""),
    "deeper": (100, "repeats"),
    "relative": (30, ""),
    "facets": (250, "query"),
    "counter": (51, "pattern"),
    "words": (21, "id"),
    "soft": (21, ""),
    "hosts": (1, ""),
}


@pytest.mark.parametrize("name", TRAPS)
async def test_traps(nasty: SiteProcess, name: str) -> None:
    most, guard = TRAPS[name]
    await nasty.set(robots="shop")
    start = f"{nasty.url}/nasty/trap/{name}"
    got = await crawled(nasty, urls=[start, f"{nasty.url}/outlet/1"], depth=1_000, traps=GUARDS, concurrency=16)
    assert got.result["metrics"]["stopped_by"] is None
    assert {"/outlet/1", f"/nasty/trap/{name}"} <= got.pages.keys()
    assert len([path for path in got.pages if path.startswith("/nasty/trap/")]) <= most, got.pages
    if guard:
        assert got.result["metrics"]["links_left_out"][f"trap: {guard}"] > 0
        assert any(note.startswith("trap: ") for note in got.result["notes"])


# -- rates


@pytest.mark.parametrize("name", ["rate", "rate-silent", "rate-date"])
async def test_what_is_asked_for_too_fast_is_not_lost(nasty: SiteProcess, name: str) -> None:
    urls = [f"{nasty.url}/nasty/refuse/{name}/{number}" for number in range(12)]
    got = await crawled(nasty, urls=urls, concurrency=8)
    assert got.pages == Counter(url.removeprefix(nasty.url) for url in urls)
    assert got.result["metrics"]["errors"] == {}


async def test_the_tables_name_everything_there_is() -> None:
    assert SITEMAPS.keys() == BEHAVIOURS["sitemap"]
    assert ROBOTS.keys() | OTHER_ROBOTS == BEHAVIOURS["robots"]
    assert TRAPS.keys() == BEHAVIOURS["trap"]
