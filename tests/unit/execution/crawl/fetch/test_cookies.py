"""Cookies that outlive executions: which are the same, which have ended, and what a session saves and restores."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from crawlfleet.execution.crawl.fetch.cookies import CookieSession, KeptCookies
from crawlfleet.model.cookie import JAR_COOKIES, CookieKey, CookieRecord, cookie_key, is_expired, merge_cookies
from crawlfleet.wire.cookies import CookieBody, CookiesDown, CookiesUp
from tests.unit.execution.crawl.crawl_kit import fetcher, site

URL = "http://shop.test/account/login"
NOW = 1_800_000_000_000


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("a=1", CookieKey("shop.test", "/account", "a")),
        ("a=1; Path=/", CookieKey("shop.test", "/", "a")),
        ("a=; path=/in; Domain=.Shop.TEST; HttpOnly", CookieKey("shop.test", "/in", "a")),
        ("nameless", None),
        ("=1", None),
    ],
)
def test_a_cookie_is_known_by_domain_path_and_name(header: str, key: CookieKey | None) -> None:
    assert cookie_key(URL, header) == key


@pytest.mark.parametrize(
    ("header", "expired"),
    [
        ("a=1", False),
        ("a=1; Max-Age=60", False),
        ("a=1; Max-Age=59", True),
        ("a=1; Max-Age=0", True),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", True),
        ("a=1; Expires=Thu, 01 Jan 2099 00:00:00 GMT", False),
        ("a=1; Expires=never; Max-Age=soon", False),
    ],
)
def test_a_cookie_ends_when_its_site_says(header: str, expired: bool) -> None:
    assert is_expired(CookieRecord(URL, header, NOW), NOW + 59_500) is expired


def test_the_last_of_the_same_cookie_counts_and_a_deleted_one_is_gone() -> None:
    kept = [CookieRecord(URL, "a=1", NOW), CookieRecord(URL, "b=1", NOW)]
    changes = [CookieRecord(URL, "a=2", NOW), CookieRecord(URL, "b=; Max-Age=0", NOW)]
    assert [record.header for record in merge_cookies(kept, changes, NOW + 1).values()] == ["a=2"]


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3)), max_size=700))
def test_a_jar_is_bounded_and_holds_each_cookie_once(settings: list[tuple[int, int]]) -> None:
    records = [CookieRecord(URL, f"c{number}={value}", NOW) for number, value in settings]
    merged = merge_cookies(records[:300], records[300:], NOW)
    assert len(merged) <= JAR_COOKIES
    last = {f"c{number}": f"c{number}={value}" for number, value in settings}
    assert all(record.header == last[key.name] for key, record in merged.items())


def headers_of(bodies: list[CookieBody]) -> list[str]:
    return [body.header for body in bodies]


async def test_only_what_changed_is_saved() -> None:
    session = CookieSession(is_kept=True)
    session.add_response_cookies(f"{URL}?user=7", ["a=1; Path=/", "b=1"])
    assert [(body.url, body.header) for body in session.unsaved_cookies()] == [(URL, "a=1; Path=/"), (URL, "b=1")]
    saved = session.unsaved_cookies()
    session.add_response_cookies(URL, ["b=2"])
    session.mark_saved(saved)
    assert headers_of(session.unsaved_cookies()) == ["b=2"]
    session.mark_saved(session.unsaved_cookies())
    session.add_response_cookies(URL, ["b=2"])
    assert not session.has_unsaved
    session.add_response_cookies(URL, ["broken\x00=1", f"large={'x' * 5_000}", "nameless"])
    assert not session.has_unsaved


async def test_a_session_that_is_not_kept_notes_nothing() -> None:
    session = CookieSession()
    session.add_response_cookies(URL, ["a=1; Path=/"])
    assert session
    assert not session.has_unsaved


async def test_restored_cookies_go_to_their_site_and_end_when_they_would_have() -> None:
    clock = Clock()
    session = CookieSession(is_kept=True, clock=clock)
    session.restore_cookies(
        [
            CookieBody(URL, "a=1; Path=/", 5_000),
            CookieBody(URL, "old=1; Path=/; Max-Age=4", 5_000),
            CookieBody(URL, "young=1; Path=/; max-age=60", 5_000),
        ]
    )
    sent = session.cookies_for("http://shop.test/")
    assert {name: morsel.value for name, morsel in sent.items()} == {"a": "1", "young": "1"}
    assert not session.cookies_for("http://other.test/")
    assert not session.has_unsaved


async def test_what_a_site_set_here_outranks_what_was_kept() -> None:
    session = CookieSession(is_kept=True)
    session.add_response_cookies(URL, ["a=new; Path=/"])
    session.restore_cookies([CookieBody(URL, "a=kept; Path=/", 0)])
    assert session.cookies_for(URL)["a"].value == "new"


class Master:
    """Keeps one jar in memory, as a master does; `is_held` keeps its answers back."""

    def __init__(self) -> None:
        self.calls: list[CookiesUp] = []
        self.jar: dict[CookieKey, CookieRecord] = {}
        self.answers = asyncio.Event()
        self.answers.set()

    async def report_crawl(self, body: bytes) -> bytes:
        raise AssertionError("no member of a crawl")

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        assert endpoint == "cookies"
        up = msgspec.json.decode(body, type=CookiesUp)
        self.calls.append(up)
        await self.answers.wait()
        changes = [CookieRecord(one.url, one.header, NOW) for one in up.changes]
        self.jar = merge_cookies(self.jar.values(), changes, NOW)
        return msgspec.json.encode(CookiesDown([CookieBody(one.url, one.header, 0) for one in self.jar.values()]))


async def test_the_next_execution_goes_on_with_the_cookies_of_the_last() -> None:
    seen: list[dict[str, str]] = []

    async def give(request: web.Request) -> web.Response:
        seen.append(dict(request.cookies))
        answer = web.Response(text="ok")
        if "visitor" not in request.cookies:
            answer.set_cookie("visitor", "17")
        return answer

    master = Master()
    async with site({"/": give}) as served:
        for _ in range(2):
            session = CookieSession(is_kept=True)
            async with KeptCookies(session, master, "login"), fetcher(cookies=session) as ours:
                await ours.fetch(f"{served.url}/")
    assert seen == [{}, {"visitor": "17"}]
    assert [(call.jar, len(call.changes)) for call in master.calls] == [("login", 0), ("login", 1), ("login", 0)]


async def test_an_execution_that_fails_saves_its_cookies_and_one_that_is_cancelled_does_not_wait() -> None:
    master = Master()
    session = CookieSession(is_kept=True)
    with pytest.raises(ValueError, match="bad page"):
        async with KeptCookies(session, master, ""):
            session.add_response_cookies(URL, ["a=1"])
            raise ValueError("bad page")
    assert len(master.jar) == 1

    async def work() -> None:
        async with KeptCookies(CookieSession(is_kept=True), master, "") as kept:
            kept._session.add_response_cookies(URL, ["a=2"])
            begun.set()
            await asyncio.Event().wait()

    begun = asyncio.Event()
    working = asyncio.create_task(work())
    await begun.wait()
    master.answers.clear()
    working.cancel()
    async with asyncio.timeout(10):
        assert isinstance((await asyncio.gather(working, return_exceptions=True))[0], asyncio.CancelledError)
