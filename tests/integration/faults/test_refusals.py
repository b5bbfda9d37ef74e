"""Sites that say «later»: no page is lost by it, whether it is the page that is refused or the site's robots.txt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.engine.failed_pages import REFUSED_TRIES
from crawlfleet.execution.sdk import TaskError
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, site

pytestmark = pytest.mark.integration

PAGES = [f"/{number}" for number in range(8)]
START = "".join(f'<a href="{path}">x</a>' for path in PAGES)


def shop(**others: Answer | str) -> Mapping[str, Answer | str]:
    """All its pages, with others in the place of some."""
    pages: dict[str, Answer | str] = {"/": START, **dict.fromkeys(PAGES, "<p>x")}
    return pages | {f"/{name.removeprefix('page')}": other for name, other in others.items()}


def refuses(times: int, status: int, then: str, wait: str = "0.05") -> Answer:
    """So often for each path, and never again."""
    asked: Counter[str] = Counter()

    async def answer(request: web.Request) -> web.Response:
        asked[request.path] += 1
        if asked[request.path] <= times:
            return web.Response(status=status, headers={"Retry-After": wait} if wait else {})
        return web.Response(text=then, content_type="text/html" if "<" in then else "text/plain")

    return answer


@pytest.mark.parametrize("status", [429, 503])
async def test_a_page_that_is_to_be_asked_for_later_is_not_lost(status: int) -> None:
    page = refuses(REFUSED_TRIES - 1, status, "<p>here")
    heard = Heard()
    async with site({"/": START, **dict.fromkeys(PAGES, page)}) as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100}, heard)
    assert Counter(item["url"] for item in heard.items) == Counter(f"{served.url}{path}" for path in ["/", *PAGES])
    assert result["metrics"]["errors"] == {}


async def test_a_page_that_is_always_refused_fails_in_the_end() -> None:
    async with site(shop(page0=refuses(1_000, 429, ""))) as served:
        result = await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100})
    assert result["metrics"]["pages_crawled"] == len(PAGES)
    assert result["metrics"]["failures"] == {"rate_limited": 1}
    assert Counter(served.hits)["/0"] == REFUSED_TRIES


async def test_a_page_that_is_only_broken_is_not_asked_for_so_often() -> None:
    async with site(shop(page0=refuses(1_000, 503, "", wait=""))) as served:
        await crawl({"url": f"{served.url}/", "depth": 1, "max_pages": 100})
    assert Counter(served.hits)["/0"] == 2


@pytest.mark.parametrize(("status", "wait"), [(429, "0.05"), (503, "0.05"), (503, "")])
async def test_while_robots_is_refused_no_page_is_asked_for_and_none_is_lost(status: int, wait: str) -> None:
    heard = Heard()
    robots = refuses(3, status, "User-agent: *\nDisallow: /3\n", wait)
    async with site({**shop(), "/robots.txt": robots}) as served:
        result = await crawl({"urls": [f"{served.url}{path}" for path in PAGES], "max_pages": 100}, heard)
    assert served.hits[:4] == ["/robots.txt"] * 4
    assert Counter(item["url"] for item in heard.items) == Counter(
        f"{served.url}{path}" for path in PAGES if path != "/3"
    )
    assert result["metrics"]["errors"] == {"policy": 1}


async def test_a_robots_that_stays_away_fails_with_its_class() -> None:
    async with site({**shop(), "/robots.txt": refuses(1_000, 503, "")}) as served:
        with pytest.raises(TaskError) as told:
            await crawl({"url": f"{served.url}/1"})
    assert (told.value.error, told.value.permanent) == ("http", False)
    assert "robots.txt cannot be read" in str(told.value)
    assert set(served.hits) == {"/robots.txt"}


async def test_a_crawl_that_ends_while_it_waits_says_for_what() -> None:
    async with site({"/": refuses(1_000, 429, "", wait="5")}) as served:
        with pytest.raises(TaskError) as told:
            await crawl({"url": f"{served.url}/", "max_seconds": 0.5})
    assert (told.value.error, told.value.permanent) == ("blocked", False)
    assert str(told.value) == f"no start URL was reached within 0.5 s: {served.url}/ answers 429"
