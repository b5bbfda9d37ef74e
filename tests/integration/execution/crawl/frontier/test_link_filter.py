"""What a crawl follows, against real servers: rules, traps, redirects, sitemaps, lists."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Any

import msgspec
import pytest
from aiohttp import web

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.crawl.frontier.follow_config import find_follow_problems
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.sdk import TaskError
from testkit.site import RunningSite, start_shop
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, site

pytestmark = pytest.mark.integration


@pytest.fixture
async def shop() -> AsyncIterator[RunningSite]:
    running = await start_shop("127.0.0.1", 0, 60)
    yield running
    await running.close()


def links(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def moved(to: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        raise web.HTTPFound(to)

    return answer


def text(body: str | bytes, content_type: str = "application/xml") -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body.encode() if isinstance(body, str) else body, content_type=content_type)

    return answer


class Endless(dict[str, Answer | str]):
    """Has every page below /trap, made by a function of the request."""

    def __init__(self, made: Answer) -> None:
        super().__init__({"/": links("/trap/", "/about"), "/about": "<title>about"})
        self._made = made

    def get(self, path: str, default: Any = None) -> Any:
        return self._made if path.startswith("/trap") else super().get(path, default)


async def paths(parameters: dict[str, Any], url: str) -> tuple[list[str], dict[str, Any]]:
    """The pages of the result, and the rest of it."""
    heard = Heard()
    result = await crawl({"max_pages": 9_999, **parameters}, heard)
    return sorted(item["_url"].removeprefix(url) for item in heard.items), result


async def test_a_sitemap_gives_the_whole_shop(shop: RunningSite) -> None:
    got, result = await paths({"url": shop.url, "sitemaps": True}, shop.url)
    assert got == sorted(shop.catalogue.page_paths())
    assert set(Counter(shop.asked_paths()).values()) == {1}
    assert "notes" not in result
    assert result["metrics"]["pages_failed"] == 0


async def test_rules_hold_for_links_and_sitemaps_alike(shop: RunningSite) -> None:
    follow = {"allow": ["/products/[0-9]+$", {"pattern": "/products", "depth": 1}], "deny": ["/products/7$"]}
    products = [it.path for it in shop.catalogue.products if it.number != 7]
    got, result = await paths({"url": f"{shop.url}/", "depth": 9, "follow": follow}, shop.url)
    # The listing's further pages are two steps away, and the products on them are reached from related ones.
    assert set(got) <= {"/", "/products", *products}
    assert {"/", "/products"} <= set(got)
    assert result["metrics"]["links_left_out"]["denied"] == 1
    assert result["metrics"]["links_left_out"]["not allowed"] >= 6
    assert result["metrics"]["links_left_out"]["too deep"] >= 1
    listed, _ = await paths({"url": f"{shop.url}/", "sitemaps": True, "follow": follow}, shop.url)
    assert {"/", *products} <= set(listed)
    assert "/products/7" not in listed + shop.asked_paths()


async def test_sitemaps_of_every_kind_and_in_circles() -> None:
    page_list = "<urlset><url><loc>{0}/b?utm_source=map</loc></url><url><loc>http://elsewhere.test/</loc></url>"
    pages: dict[str, Answer | str] = {f"/{name}": f"<title>{name}" for name in ("", "a", "b", "c", "d")}
    async with site(pages) as served:
        host = served.url

        def index(*names: str) -> Answer:
            return text(
                "<sitemapindex>"
                + "".join(f"<sitemap><loc>{host}{name}</loc></sitemap>" for name in names)
                + "</sitemapindex>"
            )

        pages["/robots.txt"] = text(f"Sitemap: {host}/index.xml\nSitemap: /plain.txt\n", "text/plain")
        pages["/index.xml"] = index("/index.xml", "/packed.xml.gz", "/second.xml", "/gone.xml")
        pages["/second.xml"] = index("/third.xml", "/index.xml")
        pages["/third.xml"] = index("/fourth.xml")
        pages["/packed.xml.gz"] = text(gzip.compress(page_list.format(host).encode()), "application/gzip")
        pages["/plain.txt"] = text(f"{host}/a\n{host}/c\n", "text/plain")
        got, result = await paths({"url": f"{host}/", "sitemaps": True}, host)
        assert got == ["/", "/a", "/b", "/c"]
        assert max(Counter(served.hits).values()) == 1
        assert "/fourth.xml" not in served.hits
        notes = "\n".join(result["notes"])
        assert "packed.xml.gz: broken: no element found" in notes
        assert "third.xml: " in notes and "more than 3 levels deep" in notes
        assert "gone.xml answers 404" in notes
        assert result["metrics"]["links_left_out"] == {"other host": 1}
        assert result["metrics"]["errors"] == {}
        # Named ones need no robots.txt to name them.
        got, _ = await paths({"url": f"{host}/d", "sitemaps": [f"{host}/plain.txt"]}, host)
        assert got == ["/a", "/c", "/d"]


async def test_a_site_without_sitemaps_is_crawled_all_the_same() -> None:
    async with site({"/": links("/a"), "/a": "a"}) as served:
        got, result = await paths({"url": served.url, "depth": 1, "sitemaps": True}, served.url)
        assert got == ["/", "/a"]
        assert "notes" not in result
        assert served.hits.count("/sitemap.xml") == served.hits.count("/robots.txt") == 1


async def test_a_calendar_is_left_after_a_while_and_the_rest_is_crawled() -> None:
    today = date(2026, 11, 16)

    async def calendar(request: web.Request) -> web.Response:
        last = request.path.rpartition("/")[2]
        day = date.fromisoformat(last) if last else today
        days = (f"/trap/{day + timedelta(days=step)}" for step in (-1, 1, 30, 365))
        return web.Response(text=links(*days, "/about"), content_type="text/html")

    async with site(Endless(calendar)) as served:
        got, result = await paths({"url": served.url, "depth": 1_000, "traps": {"calendar": 50}}, served.url)
    assert len(got) == 3 + 50
    assert result["metrics"]["stopped_by"] is None
    assert any(
        note.startswith("trap: ") and "URLs like /trap/{n}-{n}-{n} were left out after 50" in note
        for note in result["notes"]
    )
    assert result["metrics"]["links_left_out"].keys() == {"trap: calendar"}


@pytest.mark.parametrize(
    ("hrefs", "most"),
    [
        (lambda r: ["page/", "../trap/"], 30),
        (lambda r: [f"{r.path.rstrip('/')}/news", f"{r.path.rstrip('/')}/shop"], 150),
        (lambda r: [f"/trap/?page={n}&PHPSESSID={len(served_codes(r)):032x}" for n in (1, 2, 3)], 4),
        (lambda r: [f"/trap/x;jsessionid={len(served_codes(r)):032x}"], 2),
        (lambda r: [f"/trap/?{r.query_string}&f={n}" for n in range(3)], 60),
    ],
    ids=["relative", "deeper", "session", "session path", "facets"],
)
async def test_what_has_no_end_ends(hrefs: Any, most: int) -> None:
    async def endless(request: web.Request) -> web.Response:
        return web.Response(
            text=links(*(href.replace("&", "&amp;") for href in hrefs(request))), content_type="text/html"
        )

    async with site(Endless(endless)) as served:
        caps = {"query": 20, "segments": 8}
        got, result = await paths({"url": served.url, "depth": 1_000, "traps": caps}, served.url)
    assert {"/", "/about"} <= set(got)
    assert 1 <= len(got) - 2 <= most
    assert result["metrics"]["stopped_by"] is None


_codes: list[str] = []


def served_codes(request: web.Request) -> list[str]:
    _codes.append(request.path_qs)
    return _codes


async def test_traps_can_be_left_open() -> None:
    async def deeper(request: web.Request) -> web.Response:
        return web.Response(text=links("a/"), content_type="text/html")

    async with site(Endless(deeper)) as served:
        got, _ = await paths({"url": served.url, "depth": 12, "traps": False}, served.url)
    assert len(got) == 2 + 12


async def test_one_page_under_many_names_is_one_page() -> None:
    names = ["/p?utm_source=a", "/p?gclid=1", "/p", "/p#top", "/p?", "./p", "/x/../p", "/p?fbclid=2&utm_medium=b"]
    async with site({"/": links(*names), "/p": "p"}) as served:
        got, _ = await paths({"url": f"{served.url}/?utm_campaign=x", "depth": 1}, served.url)
        assert got == ["/", "/p"]
        kept = {"strip_tracking": False}
        got, _ = await paths({"url": served.url, "depth": 1, "normalise": kept}, served.url)
        assert got == ["/", "/p", "/p?fbclid=2&utm_medium=b", "/p?gclid=1", "/p?utm_source=a"]


async def test_where_redirects_lead_is_read_once() -> None:
    pages: dict[str, Answer | str] = {f"/old/{n}": moved("/new") for n in range(5)}
    pages |= {"/": links(*pages, "/one"), "/new": "new", "/one": moved("/two"), "/two": moved("/new?tab=1")}
    async with site(pages) as served:
        got, result = await paths({"url": served.url, "depth": 1}, served.url)
        assert got == ["/", "/new", "/new?tab=1"]
        assert max(Counter(served.hits).values()) == 1
        assert (result["metrics"]["pages_moved"], result["metrics"]["pages_skipped"]) == (3, 4)


async def test_redirects_without_an_end_are_failures() -> None:
    async def on(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"/trap/{int(request.path.rpartition('/')[2] or 0) + 1}")

    async with site(Endless(on)) as served:
        got, result = await paths({"url": served.url, "depth": 1}, served.url)
        assert got == ["/", "/about"]
        assert result["metrics"]["errors"] == {"http": 1}
        assert len([hit for hit in served.hits if hit.startswith("/trap")]) == 11
    async with site({"/": links("/loop"), "/loop": moved("/back"), "/back": moved("/loop")}) as served:
        got, result = await paths({"url": served.url, "depth": 1}, served.url)
        assert (got, result["metrics"]["errors"]) == (["/"], {"http": 1})
        assert len(served.hits) < 20


async def test_a_wall_that_sets_a_cookie_is_gone_through() -> None:
    async def page(request: web.Request) -> web.Response:
        if request.cookies.get("seen") == "yes":
            return web.Response(text=links("/inside"), content_type="text/html")
        raise web.HTTPFound("/wall")

    async def wall(request: web.Request) -> web.Response:
        answer = web.HTTPFound("/")
        answer.set_cookie("seen", "yes")
        raise answer

    # An address gets cookies, too: the jar of a crawl is told to.
    async with site({"/": page, "/wall": wall, "/inside": "in"}) as served:
        got, result = await paths({"url": f"{served.url}/", "depth": 1}, served.url)
        assert got == ["/", "/inside"]
        assert served.hits == ["/robots.txt", "/", "/wall", "/", "/inside"]
        assert result["metrics"]["pages_failed"] == 0


async def test_a_redirect_to_what_is_not_followed_is_skipped() -> None:
    pages: dict[str, Answer | str] = {"/": links("/a"), "/a": moved("/secret"), "/secret": "secret"}
    async with site(pages) as served:
        got, result = await paths({"url": served.url, "depth": 1, "follow": {"deny": ["/secret"]}}, served.url)
        assert (got, result["metrics"]["pages_skipped"]) == (["/"], 1)
        assert "/secret" not in served.hits
        # A start is visited whatever the rules say, wherever it has moved to.
        got, _ = await paths({"url": f"{served.url}/a", "follow": {"deny": ["/secret", "/a"]}}, served.url)
        assert got == ["/secret"]


async def test_a_start_that_leads_to_another_is_reached() -> None:
    async with site({"/a": moved("/b"), "/b": "b"}) as served:
        got, _ = await paths({"urls": [f"{served.url}/b", f"{served.url}/a"], "concurrency": 1}, served.url)
        assert got == ["/b"]
        got, _ = await paths({"url": f"{served.url}/a"}, served.url)
        assert got == ["/b"]
    async with site({"/a": moved("/list/1")}) as served:
        with pytest.raises(TaskError, match=r"redirects to .*/list/1, which is known"):
            await crawl({"url": f"{served.url}/a", "pagination": {"template": f"{served.url}/list/{{page}}"}})


async def test_the_pages_of_a_list_are_no_further_away_than_its_first(shop: RunningSite) -> None:
    listing = ["/products", "/products?page=2", "/products?page=3"]
    for pagination in ({"rel_next": True}, {"selector": "nav.pages a[rel=next]"}):
        got, result = await paths({"url": f"{shop.url}/products", "pagination": pagination}, shop.url)
        assert got == listing
    follow = {"allow": ["/products/"]}
    got, _ = await paths(
        {"url": f"{shop.url}/products", "depth": 1, "follow": follow, "pagination": {"rel_next": True}}, shop.url
    )
    assert got == sorted([*listing, *(it.path for it in shop.catalogue.products)])
    heard = Heard()
    result = await crawl({"url": f"{shop.url}/products", "pagination": {"rel_next": True}}, heard)
    assert result["notes"] == ["no max_pages was given: the default of 100 applied"]


async def test_a_template_of_pages_ends_by_itself(shop: RunningSite) -> None:
    template = f"{shop.url}/products?page={{page}}"
    counted = {"template": template, "first": 2, "while": "div.product"}
    got, _ = await paths({"url": f"{shop.url}/products", "pagination": counted}, shop.url)
    assert got == ["/products", "/products?page=2", "/products?page=3", "/products?page=4"]
    counted = {"template": template, "first": 2, "last": 2}
    got, _ = await paths({"url": f"{shop.url}/products", "pagination": counted}, shop.url)
    assert got == ["/products", "/products?page=2"]


async def test_nofollow_is_obeyed_when_asked() -> None:
    async with site({"/": '<a href="/a" rel="nofollow">a</a><a href="/b">b</a>', "/a": "a", "/b": "b"}) as served:
        got, _ = await paths({"url": served.url, "depth": 1}, served.url)
        assert got == ["/", "/a", "/b"]
        got, _ = await paths({"url": served.url, "depth": 1, "follow": {"obey_nofollow": True}}, served.url)
        assert got == ["/", "/b"]


@pytest.mark.parametrize(
    ("tag", "got"),
    [
        ("noindex, NoFollow", ["/"]),
        ("otherbot: nofollow", ["/", "/a"]),
        ("noindex", ["/", "/a"]),
        ("crawlfleet: none", ["/"]),
        ("unavailable_after: 25 Jun 2040 15:00:00 PST", ["/", "/a"]),
    ],
)
async def test_a_header_or_a_meta_may_ask_to_follow_nothing(tag: str, got: list[str]) -> None:
    async def tagged(request: web.Request) -> web.Response:
        return web.Response(text=links("/a"), content_type="text/html", headers={"X-Robots-Tag": tag})

    said = f'<meta name="robots" content="{tag}">' if ":" not in tag else ""
    for front in (tagged, said + links("/a")) if said else (tagged,):
        async with site({"/": front, "/a": "a"}) as served:
            obeyed, _ = await paths({"url": served.url, "depth": 1, "follow": {"obey_nofollow": True}}, served.url)
            anyway, _ = await paths({"url": served.url, "depth": 1}, served.url)
        assert (obeyed, anyway) == (got, ["/", "/a"])


async def test_frames_are_links_and_a_refresh_is_like_a_redirect() -> None:
    def refresh(to: str) -> str:
        return f'<meta http-equiv="refresh" content="0; url={to}">'

    pages: dict[str, Answer | str] = {
        "/": f'<iframe src="/framed"></iframe>{links("/moved", "/self", "/out", "/denied")}',
        "/framed": "f",
        "/moved": refresh("/here"),
        "/here": "h",
        "/self": refresh("/self"),
        "/secret": "s",
        "/out": refresh("http://elsewhere.test/"),
        "/denied": refresh("/secret"),
    }
    asked = {"depth": 1, "follow": {"deny": ["/secret"]}}
    async with site(pages) as served:
        got, result = await paths({"url": served.url, **asked}, served.url)
        assert got == ["/", "/denied", "/framed", "/here", "/moved", "/out", "/self"]
        assert max(Counter(served.hits).values()) == 1
        assert result["metrics"]["pages_failed"] == 0
        assert (await paths({"url": f"{served.url}/moved"}, served.url))[0] == ["/moved"], "nothing is followed"

    async def on(request: web.Request) -> web.Response:
        number = int(request.path.rpartition("/")[2] or 0)
        return web.Response(text=refresh(f"/trap/{number + 1}"), content_type="text/html")

    async with site(Endless(on)) as served:
        got, _ = await paths({"url": served.url, "depth": 1}, served.url)
    assert len(got) == 2 + 11, "as many as redirects may be in a row"


async def test_an_index_with_a_link_to_every_line_of_a_manual_leads_to_all_its_pages() -> None:
    places = [f"/manual#line-{n}" for n in range(25_000)]
    async with site({"/": links(*places, "/last"), "/manual": "<title>m", "/last": "<title>l"}) as served:
        got, result = await paths({"url": f"{served.url}/", "depth": 1}, served.url)
    assert got == ["/", "/last", "/manual"]
    assert result["metrics"]["links_left_out"] == {}


async def test_links_that_one_page_has_too_many_of_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlfleet.execution.crawl.frontier.link_filter.PAGE_LINKS", 3)
    monkeypatch.setattr("crawlfleet.execution.crawl.parse.extract.page_links.MAX_LINKS", 7)
    hrefs = ["/a#1", "/a#2", "/b", "/c", "/d", "/e", "/f", "/g", "/h"]
    async with site({"/": links(*hrefs), **{f"/{name}": f"<title>{name}" for name in "abcdefgh"}}) as served:
        got, result = await paths({"url": f"{served.url}/", "depth": 1}, served.url)
    assert got == ["/", "/a", "/b", "/c"]
    assert result["metrics"]["links_left_out"] == {"too many on a page": 5}


@pytest.mark.parametrize(
    ("beginning", "is_followed"),
    [("How to link:\n", False), ("", False), ("<!DOCTYPE html>\n", True), ("\ufeff\n <!-- by hand --><HTML>", True)],
)
async def test_a_text_about_links_has_none_and_a_page_that_is_called_a_text_has(
    beginning: str, is_followed: bool
) -> None:
    pages: dict[str, Answer | str] = {
        "/": links("/source.txt"),
        "/source.txt": text(f'{beginning}<a href="/a">a</a>', "text/plain"),
        "/a": "a",
    }
    async with site(pages) as served:
        got, _ = await paths({"url": f"{served.url}/", "depth": 5}, served.url)
    assert got == ["/", *(["/a"] if is_followed else []), "/source.txt"]


async def test_a_file_is_a_page_where_it_was_named_and_json_where_it_is_read() -> None:
    table, data = text("a,b", "text/csv"), text('{"things": [{"id": 7}]}', "application/json")
    pages: dict[str, Answer | str] = {
        "/": links("/t.csv", "/d", "/feed"),
        "/t.csv": table,
        "/d": data,
        "/feed": text("<rss/>", "text/rss+xml"),
    }
    async with site(pages) as served:
        got, result = await paths({"url": served.url, "depth": 1}, served.url)
        assert (got, result["metrics"]["pages_skipped"]) == (["/"], 3)
        assert (await paths({"url": f"{served.url}/t.csv"}, served.url))[0] == ["/t.csv"]
        heard = Heard()
        things = {"things": {"json": "things", "fields": {"id": "id"}}}
        result = await crawl({"url": served.url, "depth": 1, "max_pages": 9, "extract": things}, heard)
        assert (result["data"], result["metrics"]["pages_crawled"]) == ({"things": [{"id": 7}]}, 2)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"follow": {"allow": ["a(b"]}}, "follow.allow[0]"),
        ({"follow": {"deny": ["x", "(?=y)"]}}, "follow.deny[1]"),
        ({"follow": {"scope": "domain"}, "same_host": True}, "follow.scope"),
        ({"sitemaps": ["http://%zz/"]}, "sitemaps[0]"),
        ({"pagination": {"selector": "a["}}, "pagination.selector"),
        ({"pagination": {"template": "http://a.test/1"}}, "pagination.template"),
    ],
)
async def test_what_cannot_be_used_is_told_before_any_request(parameters: dict[str, Any], field: str) -> None:
    types = TaskTypes({"web_crawl": WebCrawl.schema}, {"web_crawl": WebCrawl.problems})
    async with site({"/": "x"}) as served:
        asked = {"url": served.url, **parameters}
        refused = types.find_refusal("web_crawl", msgspec.json.encode(asked))
        assert refused is not None and refused.field == f"parameters.{field}"
        assert [name for name, _ in find_follow_problems(asked)] == [field]
        with pytest.raises(TaskError) as told:
            await crawl(asked)
        assert (told.value.error, told.value.permanent) == ("input", True)
        assert str(told.value).startswith(f"{field}: ")
        assert served.hits == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"follow": {"scope": "planet"}}, "parameters.follow.scope"),
        ({"follow": {"allow": "x"}}, "parameters.follow.allow"),
        ({"follow": {"deny": [""]}}, "parameters.follow.deny[0]"),
        ({"follow": {"hosts": ["a/b"]}}, "parameters.follow.hosts[0]"),
        ({"follow": {"allowed": []}}, "parameters.follow"),
        ({"normalise": {"strip": ["a=b"]}}, "parameters.normalise.strip[0]"),
        ({"traps": {"calendar": -1}}, "parameters.traps"),
        ({"sitemaps": ["sitemap.xml"]}, "parameters.sitemaps"),
        ({"pagination": {}}, "parameters.pagination"),
        ({"pagination": {"first": -1}}, "parameters.pagination.first"),
    ],
)
def test_parameters_of_the_wrong_shape_are_refused_by_name(parameters: dict[str, Any], field: str) -> None:
    types = TaskTypes({"web_crawl": WebCrawl.schema})
    refused = types.find_refusal("web_crawl", msgspec.json.encode({"url": "http://a.test/", **parameters}))
    assert refused is not None
    assert (refused.field or "").startswith(field)
    # Also where another node's schema let it pass.
    told = [f"parameters.{name}" for name, _ in find_follow_problems(parameters)]
    assert field == "parameters.sitemaps" or any(name.startswith(field) for name in told)
