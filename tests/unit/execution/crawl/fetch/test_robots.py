"""robots.txt and what pages say to robots: read as RFC 9309 says, kept for a while, shared by a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from protego import Protego

from crawlfleet.execution.crawl.fetch.robots import Robots
from crawlfleet.execution.crawl.fetch.robots_tags import directives_in_content, directives_in_headers
from crawlfleet.execution.page_failures import PageFailed
from crawlfleet.execution.process_state import robots_cache
from crawlfleet.execution.process_state.robots_cache import FAILED_S, KEPT_S, LEAST_S, RobotsCache
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, fetcher, site


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def clock() -> AsyncIterator[Clock]:
    yield Clock()


def says(status: int = 200, text: str | bytes = "", content_type: str = "text/plain", **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        body = text.encode() if isinstance(text, str) else text
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=body, content_type=content_type, headers=more)

    return answer


async def verdict(answer: Answer, path: str = "/private/x", *, agent: str = "crawlfleet/1") -> str:
    """`allowed`, or the class of the failure."""
    async with site({"/robots.txt": answer}) as served, fetcher() as ours:
        robots = Robots(ours, user_agent=agent, on_delay=lambda *_: None, log=lambda *_: None)
        try:
            await robots.check_allowed(f"{served.url}{path}")
        except PageFailed as exc:
            return f"{exc.error}{' for good' if exc.permanent else ''}"
        return "allowed"


RULES = "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\nDisallow: /a*b*c\n"


@pytest.mark.parametrize(
    ("answer", "path", "said"),
    [
        (says(text=RULES), "/private/x", "policy for good"),
        (says(text=RULES), "/private/open/x", "allowed"),
        (says(text=RULES), "/x.pdf", "policy for good"),
        (says(text=RULES), "/x.pdf?y", "allowed"),
        (says(text=RULES), "/a1b2c3", "policy for good"),
        (says(text="\ufeff" + RULES), "/private/x", "policy for good"),
        (says(text=RULES.replace("\n", "\r\n")), "/private/x", "policy for good"),
        (says(text=RULES.encode("utf-16")), "/private/x", "policy for good"),
        (says(text="User-agent: crawlfleet\nDisallow: /p\n\nUser-agent: *\nDisallow:\n"), "/p", "policy for good"),
        (says(text="User-agent: other\nDisallow: /\n"), "/p", "allowed"),
        (says(text="<html><p>User-agent: *\nDisallow: /\n</html>", content_type="text/html"), "/p", "allowed"),
        (says(text=" \n<!doctype html>\nUser-agent: *\nDisallow: /\n"), "/p", "allowed"),
        (says(text=RULES + "# padding\n" * 60_000 + "Disallow: /late\n"), "/private/x", "policy for good"),
        (says(text=RULES + "# padding\n" * 60_000 + "Disallow: /late\n"), "/late", "allowed"),
        (says(text="User-agent: *\nDisallow: /" + "*a" * 5_000 + "$\n"), "/" + "a" * 2_000 + "b", "allowed"),
        (says(404), "/p", "allowed"),
        (says(403), "/p", "allowed"),
        (says(401), "/p", "allowed"),
        (says(500), "/p", "http"),
        (says(503), "/p", "http"),
        (says(429), "/p", "blocked"),
    ],
)
async def test_what_an_answer_allows(answer: Answer, path: str, said: str) -> None:
    async with asyncio.timeout(5):
        assert await verdict(answer, path) == said


@pytest.mark.parametrize(("redirects", "said"), [(5, "policy for good"), (6, "allowed")])
async def test_five_redirects_are_followed(redirects: int, said: str) -> None:
    left = redirects

    async def moved(request: web.Request) -> web.Response:
        nonlocal left
        if left == 0:
            return web.Response(text=RULES)
        left -= 1
        raise web.HTTPFound("/robots.txt")

    assert await verdict(moved) == said


async def test_one_that_is_to_be_asked_for_later_is() -> None:
    asked = 0

    async def busy(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=429, headers={"Retry-After": "0.05"}) if asked == 1 else web.Response(text=RULES)

    assert await verdict(busy) == "policy for good"
    assert asked == 2


async def test_it_is_read_once_for_all_executions_of_a_process(clock: Clock) -> None:
    cache = RobotsCache(clock)
    delays: list[tuple[str, float]] = []
    answer = says(text=RULES + "Crawl-delay: 7\n", Cache_Control="max-age=1000")
    async with site({"/robots.txt": answer}) as served, fetcher() as ours:

        def robots() -> Robots:
            return Robots(
                ours, user_agent="x/1", on_delay=lambda *told: delays.append(told), log=lambda *_: None, cache=cache
            )

        first, second = robots(), robots()
        await asyncio.gather(*(one.check_allowed(f"{served.url}/{n}") for n in range(5) for one in (first, second)))
        assert served.hits == ["/robots.txt"]
        # Whoever comes later is told of the delay all the same, and once.
        assert [delay for _, delay in delays] == [7.0, 7.0]
        clock.now += 999
        await first.check_allowed(f"{served.url}/")
        assert len(served.hits) == 1
        clock.now += 2
        await first.check_allowed(f"{served.url}/")
        assert len(served.hits) == 2


@pytest.mark.parametrize(
    ("said", "kept_s"),
    [
        ("", KEPT_S),
        ("max-age=1000", 1_000),
        ("public, max-age=3", LEAST_S),
        ("no-cache", LEAST_S),
        ("no-store", LEAST_S),
        ("max-age=99999999", KEPT_S),
        ("max-age=x", KEPT_S),
        ('MAX-AGE="900"', 900),
    ],
)
def test_how_long_it_is_kept(clock: Clock, said: str, kept_s: float) -> None:
    cache = RobotsCache(clock)
    entry = cache.get_entry("a")
    cache.keep_rules(entry, None, cache_control=said)
    clock.now += kept_s - 1
    assert cache.is_good(entry)
    clock.now += 1
    assert not cache.is_good(entry)


async def test_a_failure_is_forgotten_when_its_host_was_away(clock: Clock) -> None:
    answers: dict[str, Answer | str] = {}
    async with site(answers) as served, fetcher() as ours:
        robots = Robots(ours, user_agent="x/1", on_delay=lambda *_: None, log=lambda *_: None, cache=RobotsCache(clock))
        answers["/robots.txt"] = says(status=500)
        with pytest.raises(PageFailed):
            await robots.check_allowed(f"{served.url}/")
        robots.forget_failure(f"{served.url}/page")
        answers["/robots.txt"] = says(text=RULES)
        await robots.check_allowed(f"{served.url}/")
        # What could be read is kept.
        robots.forget_failure(f"{served.url}/page")
        await robots.check_allowed(f"{served.url}/")
        assert served.hits == ["/robots.txt"] * 2


async def test_what_nobody_answered_names_no_sitemaps_and_says_so() -> None:
    async with fetcher() as ours:
        robots = Robots(ours, user_agent="x/1", on_delay=lambda *_: None, log=lambda *_: None)
        with pytest.raises(PageFailed) as told:
            await robots.named_sitemaps("http://127.0.0.1:1/")
    assert told.value.kind == "connect"


async def test_a_failure_is_kept_for_a_short_while(clock: Clock) -> None:
    cache = RobotsCache(clock)
    status = 500

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=RULES)

    async with site({"/robots.txt": answer}) as served, fetcher() as ours:
        robots = Robots(ours, user_agent="x/1", on_delay=lambda *_: None, log=lambda *_: None, cache=cache)
        for _ in range(3):
            with pytest.raises(PageFailed, match=r"while its robots\.txt cannot be read"):
                await robots.check_allowed(f"{served.url}/")
        assert len(served.hits) == 1
        status = 200
        clock.now += FAILED_S
        await robots.check_allowed(f"{served.url}/")


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = RobotsCache()
    for number in range(robots_cache.HOSTS + 50):
        cache.keep_rules(cache.get_entry(str(number)), None, size_bytes=10)
    assert len(cache) == robots_cache.HOSTS
    monkeypatch.setattr(robots_cache, "TOTAL_BYTES", 1_000)
    cache.keep_rules(cache.get_entry("large"), Protego.parse(RULES), size_bytes=500)
    assert len(cache) == 51
    assert cache.get_entry("large").rules is not None


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (["noindex, nofollow"], {"noindex", "nofollow"}),
        (["none"], {"none", "noindex", "nofollow"}),
        (["otherbot: noindex"], set()),
        (["CrawlFleet: noindex", "nofollow"], {"noindex", "nofollow"}),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST"], {"unavailable_after: 25 jun 2030 15:00:00 pst"}),
        (["max-snippet:0, noindex"], {"max-snippet:0", "noindex"}),
    ],
)
def test_headers_to_robots(headers: list[str], said: set[str]) -> None:
    assert directives_in_headers(headers, "crawlfleet") == said


def test_metas_to_robots() -> None:
    assert directives_in_content(["NoIndex,follow", "none"]) >= {"noindex", "nofollow", "follow"}


LINK = '<a href="/next">x</a>'


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize(
    "page",
    [
        says(text=f'<meta name="ROBOTS" content="noindex, nofollow">{LINK}', content_type="text/html"),
        says(text=f'<meta name="robots" content="none">{LINK}', content_type="text/html"),
        says(text=LINK, content_type="text/html", X_Robots_Tag="noindex, nofollow"),
    ],
)
async def test_pages_that_ask_for_it_are_neither_kept_nor_followed(page: Answer, obeys: bool) -> None:
    async with site({"/": page, "/next": "<title>next"}) as served:
        heard = Heard()
        result = await crawl(
            {"url": f"{served.url}/", "depth": 1, "obey_noindex": obeys, "follow": {"obey_nofollow": obeys}}, heard
        )
        assert [item["_url"].removeprefix(served.url) for item in heard.items] == ([] if obeys else ["/", "/next"])
        assert result["metrics"]["pages_not_kept"] == obeys
        assert result["metrics"]["pages_crawled"] == 2 - obeys
