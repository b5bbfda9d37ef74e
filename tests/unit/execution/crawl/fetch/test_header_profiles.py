"""Who a crawl says it is."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from crawlfleet.execution.crawl.engine.plan import USER_AGENT
from crawlfleet.execution.crawl.fetch.header_profiles import HEADERS_BYTES, PROFILES, HeaderSets, checked_headers
from crawlfleet.execution.crawl.frontier.patterns import BadRule
from crawlfleet.execution.crawl.frontier.urls import parse_origin
from crawlfleet.execution.crawl.schemas.fetch import PROFILE_NAMES
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from tests.unit.execution.crawl.crawl_kit import crawl, site


async def sent(**parameters: Any) -> dict[str, str]:
    """The headers of the page's request, by name in small letters."""
    seen: dict[str, str] = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update({name.lower(): value for name, value in request.headers.items()})
        return web.Response(text="x", content_type="text/html")

    async with site({"/": answer}) as served:
        await crawl({"url": f"{served.url}/", "respect_robots": False, **parameters})
    return seen


async def test_the_truth_unless_another_profile_is_asked_for() -> None:
    assert (await sent())["user-agent"] == USER_AGENT
    chrome = await sent(profile="chrome")
    assert "Chrome/" in chrome["user-agent"] and chrome["sec-fetch-mode"] == "navigate"
    assert (await sent(profile="chrome", user_agent="me/1"))["user-agent"] == "me/1"
    assert chrome["accept-encoding"] == "gzip, deflate, br, zstd"


async def test_own_headers_outrank_a_profile_in_any_spelling() -> None:
    got = await sent(profile="firefox", headers={"accept-LANGUAGE": "de", "X-Api": "1", "Authorization": "Bearer x"})
    assert (got["accept-language"], got["x-api"], got["authorization"]) == ("de", "1", "Bearer x")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"connection": "close"},
        {"Transfer-Encoding": "chunked"},
        {"Content-Length": "1"},
        {"Proxy-Authorization": "x"},
        {"Accept-Encoding": "x"},
        {"X Y": "1"},
        {"X": "a\r\nY: b"},
        {"X": "ä"},
        {"": "x"},
        {"X": "1", "x": "2"},
        {"X": "a" * 4_001},
        {f"X{n}": "a" * 3_000 for n in range(1 + HEADERS_BYTES // 3_000)},
    ],
)
def test_headers_that_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(BadRule, match="headers"):
        checked_headers(headers)
    (problem,) = WebCrawl.problems({"url": "http://a.test/", "headers": headers})
    assert problem[0].startswith("headers")


def test_secrets_go_to_the_start_urls_only() -> None:
    sets = HeaderSets(
        user_agent="x", headers={"Cookie": "a=b", "X-Any": "1"}, starts=["https://a.test/x", "http://b.test:81/"]
    )
    for url in ("https://a.test/other", "http://b.test:81/"):
        assert sets.headers_for(parse_origin(url).origin)["Cookie"] == "a=b"
    for url in ("http://a.test/", "https://www.a.test/", "http://b.test/"):
        assert "Cookie" not in sets.headers_for(parse_origin(url).origin)
        assert sets.headers_for(parse_origin(url).origin)["X-Any"] == "1"


def test_each_host_sees_one_of_several_profiles_and_always_the_same() -> None:
    sets = HeaderSets(user_agent="x", profiles=["chrome", "firefox"], is_named=False)
    agents = [sets.headers_for(f"http://h{number}.test")["User-Agent"] for number in range(50)]
    assert set(agents) == {PROFILES["chrome"]["User-Agent"], PROFILES["firefox"]["User-Agent"]}
    again = HeaderSets(user_agent="x", profiles=["chrome", "firefox"], is_named=False)
    assert [again.headers_for(f"http://h{number}.test")["User-Agent"] for number in range(50)] == agents


def test_the_schema_names_all_profiles() -> None:
    assert list(PROFILES) == PROFILE_NAMES
