"""Which page next, when, and whether the site allows it."""

from __future__ import annotations

import asyncio
import time
import tracemalloc

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.engine.pacing import HostPacing
from crawlfleet.execution.crawl.fetch.robots import DELAY_MAX_S, ROBOTS_BYTES, Robots
from crawlfleet.execution.crawl.frontier.frontier import Frontier
from crawlfleet.execution.page_failures import PageFailed
from tests.unit.execution.crawl.crawl_kit import Answer, fetcher, raw_site, site


def free(host: str) -> bool:
    return True


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=60))
def test_every_url_comes_out_once_and_in_order_of_its_host(found: list[tuple[str, int]]) -> None:
    frontier = Frontier()
    urls = [f"http://{host}.test/{n}" for host, n in found]
    added = [url for url in urls if frontier.add_url(url, 0)]
    taken = []
    while (link := frontier.pop_link(free)) is not None:
        taken.append(link.url)
    assert added == list(dict.fromkeys(urls))
    assert sorted(taken) == sorted(added)
    for host in "abc":
        of_host = f"http://{host}."
        assert [url for url in taken if url.startswith(of_host)] == [url for url in added if url.startswith(of_host)]
    assert len(frontier) == 0


def test_hosts_take_turns_and_busy_ones_wait() -> None:
    frontier = Frontier()
    for url in ("http://a.test/1", "http://a.test/2", "http://b.test/1"):
        frontier.add_url(url, 0)
    links = [frontier.pop_link(lambda host: host != "c.test") for _ in range(3)]
    assert [link.url for link in links if link] == ["http://a.test/1", "http://b.test/1", "http://a.test/2"]
    frontier.add_url("http://a.test/3", 1)
    assert frontier.pop_link(lambda host: host != "a.test") is None
    assert len(frontier) == 1


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=40), st.data())
def test_nearer_to_the_start_goes_first_wherever_it_was_found_first(
    found: list[tuple[int, int]], data: st.DataObject
) -> None:
    frontier = Frontier()
    nearest: dict[str, int] = {}
    taken: dict[str, int] = {}
    for n, depth in found:
        url = f"http://a.test/{n}"
        assert frontier.add_url(url, depth) == (url not in nearest)
        nearest[url] = min(depth, nearest.get(url, depth))
        if data.draw(st.booleans()) and (link := frontier.pop_link(free)) is not None:
            assert link.depth == nearest[link.url] == min(d for u, d in nearest.items() if u not in taken)
            taken[link.url] = link.depth
        assert len(frontier) == len(nearest) - len(taken)
    while (link := frontier.pop_link(free)) is not None:
        assert link.url not in taken
        taken[link.url] = link.depth
    assert taken.keys() == nearest.keys()
    assert (len(frontier), frontier.queued_by_host(), frontier.known_count) == (0, {}, len(nearest))


def test_starts_and_sitemaps_go_before_what_they_lead_to() -> None:
    frontier = Frontier()
    frontier.add_url("http://a.test/linked", 1)
    frontier.add_url("http://a.test/listed", 0)
    frontier.add_url("http://a.test/", 0, is_start=True)
    frontier.add_sitemap("http://a.test/sitemap.xml", 1)
    assert not frontier.add_sitemap("http://a.test/sitemap.xml", 2)
    links = [link for _ in range(4) if (link := frontier.pop_link(free))]
    assert [link.url.rpartition("/")[2] for link in links] == ["", "sitemap.xml", "listed", "linked"]
    assert [link.is_sitemap for link in links] == [False, True, False, False]
    assert frontier.add_url("http://a.test/sitemap.xml", 1), "a page of that name is another thing"


def test_a_redirect_takes_the_place_of_its_page() -> None:
    frontier = Frontier()
    frontier.add_url("http://a.test/", 0, is_start=True)
    link = frontier.pop_link(free)
    assert link is not None
    assert frontier.add_redirected(link, "http://a.test/home")
    assert not frontier.add_redirected(link, "http://a.test/home")
    moved = frontier.pop_link(free)
    assert moved is not None
    assert (moved.url, moved.depth, moved.is_start, moved.via) == ("http://a.test/home", 0, True, ("http://a.test/",))


def test_what_is_refused_is_asked_about_once_and_takes_no_room() -> None:
    asked: list[str] = []

    def refusal(url: str) -> str | None:
        asked.append(url)
        return None if url.startswith("http://a.test/") else "other host"

    frontier = Frontier(max_urls=2)
    for _ in range(2):
        for url in ("http://b.test/1", "http://b.test/2", "http://a.test/1", "http://a.test/2", "http://a.test/3"):
            frontier.add_url(url, 1, refusal=refusal)
    assert frontier.left_out == {"other host": 2, "no room": 1}
    assert (len(asked), frontier.known_count) == (5, 2)
    assert not frontier.add_url("http://b.test/1", 1)
    frontier = Frontier()
    frontier.add_url("http://b.test/1", 1, refusal=refusal)
    assert not frontier.add_url("http://b.test/1", 1)
    assert frontier.add_url("http://b.test/1", 1, is_named=True), "what is named is asked about again"
    frontier.add_url("http://b.test/2", 1, refusal=refusal)
    frontier.forget_refusals()
    assert frontier.add_url("http://b.test/2", 1)
    frontier = Frontier()
    for depth in (5, 1):
        frontier.add_url("http://a.test/", depth, refusal=lambda _, depth=depth: "too deep" if depth > 3 else None)  # type: ignore[misc]
    assert len(frontier) == 1, "nearer to the start it is another question"


def test_known_urls_are_small() -> None:
    tracemalloc.start()
    frontier = Frontier()
    for n in range(20_000):
        frontier.add_url(f"https://www.shop.example/category/kitchen/products/{n}?colour=blue&size=large", 1)
        frontier.pop_link(free)
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (frontier.known_count, len(frontier)) == (20_000, 0)
    assert size / frontier.known_count < 150
    assert peak < 8 << 20


def test_it_is_bounded() -> None:
    frontier = Frontier(max_urls=3)
    assert [frontier.add_url(f"http://a.test/{n}", 0) for n in range(5)] == [True, True, True, False, False]
    assert (len(frontier), frontier.dropped_count) == (3, 2)


async def test_pace_spaces_the_requests_of_a_host() -> None:
    pace = HostPacing(concurrency=8, delay_s=0.05)
    began = time.monotonic()
    await asyncio.gather(*(pace.wait_turn("a") for _ in range(4)), pace.wait_turn("b"))
    assert time.monotonic() - began >= 0.15
    pace.slow_down("a", 0.01)
    assert pace._delays["a"] == 0.05, "what the task asks for is the least"


async def test_pace_counts_what_is_under_way() -> None:
    pace = HostPacing(concurrency=2)
    pace.begin_page("a")
    assert pace.is_free("a")
    pace.begin_page("a")
    assert not pace.is_free("a")
    assert pace.is_free("b")
    pace.end_page("a")
    assert pace.is_free("a")


async def test_a_host_on_hold_is_left_alone() -> None:
    pace = HostPacing(concurrency=2)
    pace.hold_back("a", 0.1)
    began = time.monotonic()
    await pace.wait_turn("b")
    assert time.monotonic() - began < 0.1
    await pace.wait_turn("a")
    assert time.monotonic() - began >= 0.1


class Told:
    def __init__(self) -> None:
        self.delays: dict[str, float] = {}
        self.lines: list[str] = []

    def delay(self, host: str, delay_s: float) -> None:
        self.delays[host] = delay_s

    def log(self, message: str, level: str) -> None:
        self.lines.append(message)


async def verdicts(answer: Answer, *paths: str, agent: str = "crawlfleet/1") -> tuple[list[str], Told, list[str]]:
    """For each path "" when it may be fetched, or the class of the error."""
    told = Told()
    async with site({"/robots.txt": answer}) as served, fetcher() as ours:
        robots = Robots(ours, user_agent=agent, on_delay=told.delay, log=told.log)
        got = []
        for path in paths:
            try:
                await robots.check_allowed(f"{served.url}{path}")
                got.append("")
            except PageFailed as exc:
                got.append(f"{exc.error}{'!' if exc.permanent else ''}")
        return got, told, served.hits


def text(body: str, status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    return answer


async def test_rules_are_kept_and_read_once() -> None:
    rules = text("User-agent: *\nDisallow: /private\nAllow: /private/open\n\nUser-agent: rude\nDisallow: /\n")
    got, _, hits = await verdicts(rules, "/", "/private/x", "/private/open", "/public")
    assert got == ["", "policy!", "", ""]
    assert hits == ["/robots.txt"]
    got, _, _ = await verdicts(rules, "/", agent="rude/2.0")
    assert got == ["policy!"]


@pytest.mark.parametrize(
    ("status", "expected"), [(404, ""), (403, ""), (401, ""), (410, ""), (429, "blocked"), (500, "http"), (503, "http")]
)
async def test_what_an_error_means(status: int, expected: str) -> None:
    got, _, _ = await verdicts(text("", status), "/")
    assert got == [expected]


async def test_no_answer_means_not_now() -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        pass

    async with raw_site(silence) as served, fetcher() as ours:
        robots = Robots(ours, user_agent="x", on_delay=Told().delay, log=Told().log)
        with pytest.raises(PageFailed) as told:
            await robots.check_allowed(f"{served.url}/")
    assert (told.value.error, told.value.permanent) == ("network", False)


async def test_crawl_delay_is_kept_up_to_a_bound() -> None:
    _, told, _ = await verdicts(text("User-agent: *\nCrawl-delay: 2.5\n"), "/")
    assert list(told.delays.values()) == [2.5]
    _, told, _ = await verdicts(text("User-agent: *\nCrawl-delay: 86400\n"), "/")
    assert list(told.delays.values()) == [DELAY_MAX_S]
    assert "86400" in told.lines[0]


async def test_a_huge_robots_txt_counts_as_far_as_it_is_read() -> None:
    padding = "# nothing\n" * (ROBOTS_BYTES // 10)
    got, _, _ = await verdicts(text(f"User-agent: *\nDisallow: /a\n{padding}\nDisallow: /b\n"), "/a", "/b")
    assert got == ["policy!", ""]


async def test_redirects_without_end_and_nonsense_allow() -> None:
    async def on(request: web.Request) -> web.Response:
        raise web.HTTPFound("/robots.txt")

    got, _, hits = await verdicts(on, "/")
    assert got == [""]
    assert len(hits) == 6
    got, _, _ = await verdicts(text("<html>\0\ufffd not robots"), "/")
    assert got == [""]
