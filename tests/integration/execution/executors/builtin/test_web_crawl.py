"""`web_crawl` against the shop and against sites that are none: real servers, real requests."""

from __future__ import annotations

import asyncio
import io
import re
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from warcio.archiveiterator import ArchiveIterator

from crawlfleet.control.tasks.task_types import TaskTypes
from crawlfleet.execution.crawl.engine import failed_pages
from crawlfleet.execution.crawl.engine.collected_items import INLINE_RECORDS
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.executors.registry import builtin_schemas
from crawlfleet.execution.sdk import TaskError
from crawlfleet.model import limits
from testkit.patience import PATIENCE_S
from testkit.site import RunningSite, start_shop
from tests.unit.execution.crawl.crawl_kit import Answer, Heard, crawl, raw_site, site

pytestmark = pytest.mark.integration
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}


@pytest.fixture
async def shop() -> AsyncIterator[RunningSite]:
    running = await start_shop("127.0.0.1", 0, 60)
    yield running
    await running.close()


async def failure(parameters: dict[str, Any], **more: Any) -> TaskError:
    with pytest.raises(TaskError) as told:
        await crawl(parameters, **more)
    return told.value


async def test_the_example_of_the_source_document(shop: RunningSite) -> None:
    heard = Heard()
    result = await crawl({"url": f"{shop.url}/products", "depth": 2, "selectors": SELECTORS}, heard)
    first = shop.catalogue.products[0]
    assert result["success"] is True
    assert result["data"]["products"][0] == {"title": first.title, "price": first.price, "url": first.path}
    assert {"pages_crawled", "processing_time", "data_size"} <= result["metrics"].keys()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", result["timestamp"])
    assert result["notes"][0] == "no max_pages was given: the default of 100 applied"
    assert heard.figures["pages"] == result["metrics"]["pages_crawled"]
    assert heard.figures["items"] == len(heard.items) == result["items"]


async def test_every_reachable_page_once(shop: RunningSite) -> None:
    heard = Heard()
    result = await crawl({"url": shop.url, "depth": 50, "max_pages": 10_000}, heard)
    expected = sorted(f"{shop.url}{path}" for path in shop.catalogue.page_paths())
    assert sorted(item["_url"] for item in heard.items) == expected
    assert result["metrics"]["pages_crawled"] == len(expected)
    assert result["metrics"]["stopped_by"] is None
    assert set(Counter(shop.asked_paths()).values()) == {1}
    assert result["metrics"]["pages_failed"] == 0


async def test_each_product_of_the_shop_is_found(shop: RunningSite) -> None:
    heard = Heard()
    await crawl({"url": f"{shop.url}/products", "depth": 9, "max_pages": 999, "selectors": SELECTORS}, heard)
    on_their_pages = {item["url"]: item for item in heard.items if item["_url"].endswith(item["url"])}
    assert on_their_pages == {
        it.path: {"title": it.title, "price": it.price, "url": it.path, "_url": f"{shop.url}{it.path}"}
        for it in shop.catalogue.products
    }


async def test_the_result_is_capped_and_says_so() -> None:
    shop = await start_shop(products=400)
    heard = Heard()
    result = await crawl({"url": f"{shop.url}/products", "depth": 1, "max_pages": 500, "selectors": SELECTORS}, heard)
    await shop.close()
    assert len(heard.items) == result["items"] > INLINE_RECORDS
    assert result["data_truncated"] is True
    assert len(result["data"]["products"]) == INLINE_RECORDS
    assert len(msgspec.json.encode(result)) < limits.RESULT_BYTES


async def test_awkward_pages(shop: RunningSite) -> None:
    heard = Heard()
    result = await crawl({"url": f"{shop.url}/awkward", "depth": 1, "selectors": SELECTORS}, heard)
    assert result["metrics"]["errors"] == {"http": 1, "policy": 1}
    titles = {item["_url"].removeprefix(shop.url): item["title"] for item in heard.items}
    assert titles["/chinese"] == "茶壶"
    assert titles["/broken-charset"] == "Crème brûlée"
    # The redirect ends where a link leads as well: that page is read once.
    assert sum(item["_url"] == f"{shop.url}/products" for item in heard.items) == 20
    assert "/private/cellar" not in shop.asked_paths()
    assert any("/missing answers 404" in line for _, line in heard.lines)


async def test_robots_may_be_left_aside(shop: RunningSite) -> None:
    assert (await failure({"url": f"{shop.url}/private/cellar"})).error == "policy"
    result = await crawl({"url": f"{shop.url}/private/cellar", "respect_robots": False})
    assert result["data"]["pages"][0]["title"] == "The cellar"
    assert shop.asked_paths() == ["/robots.txt", "/private/cellar"]


@pytest.mark.parametrize("most", [1, 7, 20])
async def test_a_limit_of_pages_is_kept_exactly(shop: RunningSite, most: int) -> None:
    result = await crawl({"url": shop.url, "depth": 5, "max_pages": most})
    assert result["metrics"]["pages_crawled"] == most
    assert result["metrics"]["stopped_by"] == "max_pages"
    assert len(shop.requests) == most + 1


async def test_limits_of_time_and_bytes() -> None:
    shop = await start_shop(products=60)
    shop.gate.hold(after=1)
    result = await crawl({"url": shop.url, "depth": 5, "max_pages": 999, "max_seconds": 2})
    assert result["metrics"]["stopped_by"] == "max_seconds"
    assert result["metrics"]["pages_crawled"] == 1
    shop.gate.release()
    result = await crawl({"url": shop.url, "depth": 5, "max_pages": 999, "max_bytes": 10_000, "concurrency": 1})
    assert result["metrics"]["stopped_by"] == "max_bytes"
    assert result["metrics"]["data_size"] < 20_000
    shop.gate.hold()
    assert (await failure({"url": shop.url, "max_seconds": 0.01})).error == "timeout"
    await shop.close()


async def test_other_hosts_are_followed_only_when_asked() -> None:
    async with (
        site({"/": "<p>other"}, host="127.0.0.2") as other,
        site({"/": f'<a href="/in">in</a><a href="{other.url}/">out</a>', "/in": "in"}) as ours,
    ):
        allow = frozenset({"127.0.0.0/8"})
        await crawl({"url": ours.url, "depth": 1}, allow=allow)
        assert other.hits == []
        result = await crawl({"url": ours.url, "depth": 1, "same_host": False}, allow=allow)
        assert result["metrics"]["pages_crawled"] == 3
        # Also when asked to: an inner host is not crawled for being linked to.
        other.hits.clear()
        result = await crawl({"url": ours.url, "depth": 1, "same_host": False})
        assert result["metrics"]["errors"] == {"policy": 1}
        assert other.hits == []


async def test_where_a_redirect_leaves_the_host() -> None:
    async with site({"/": '<a href="/x">x</a>', "/x": "x"}, host="127.0.0.2") as other:

        async def away(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other.url}/")

        async with site({"/moved": away, "/": '<a href="/moved">moved</a>'}) as ours:
            allow = frozenset({"127.0.0.0/8"})
            found = await crawl({"url": f"{ours.url}/", "depth": 2}, allow=allow)
            assert (found["metrics"]["pages_crawled"], found["metrics"]["pages_skipped"]) == (1, 1)
            assert other.hits == []
            # A start URL that moved names the site that was meant.
            named = await crawl({"url": f"{ours.url}/moved", "depth": 2}, allow=allow)
            assert named["metrics"]["pages_crawled"] == 2


def broken(status: int) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status)

    return answer


@pytest.mark.parametrize(
    ("status", "error", "permanent", "tries"),
    [(404, "http", True, 1), (500, "http", False, 2), (403, "blocked", False, 2), (429, "blocked", False, 4)],
)
async def test_a_task_fails_with_the_class_of_its_start(status: int, error: str, permanent: bool, tries: int) -> None:
    async with site({"/": broken(status)}) as served:
        told = await failure({"url": served.url})
        assert (told.error, told.permanent) == (error, permanent)
        assert str(status) in str(told)
        assert served.hits == ["/robots.txt"] + ["/"] * tries


async def test_one_start_that_is_reached_is_enough() -> None:
    async with site({"/": "<title>here"}) as served:
        result = await crawl({"urls": [f"{served.url}/", f"{served.url}/gone", "http://%zz/", f"{served.url}/#again"]})
        assert result["metrics"]["pages_crawled"] == 1
        assert result["metrics"]["errors"] == {"http": 1, "input": 1}
        told = await failure({"urls": [f"{served.url}/gone", f"{served.url}/too"]})
        assert str(told).endswith("(and 1 more start URLs failed)")


async def test_a_page_that_fails_once_is_tried_again() -> None:
    async def once(request: web.Request) -> web.Response:
        return web.Response(status=503 if served.hits.count("/flaky") == 1 else 200, headers={"Retry-After": "0.2"})

    async with site({"/": '<a href="/flaky">x</a>', "/flaky": once}) as served:
        result = await crawl({"url": served.url, "depth": 1})
        assert result["metrics"]["pages_crawled"] == 2
        assert result["metrics"]["pages_failed"] == 0


async def test_no_connection_and_no_readable_page() -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        pass

    async with raw_site(silence) as served:
        assert (await failure({"url": served.url})).error == "network"

    async def pdf(request: web.Request) -> web.Response:
        return web.Response(body=b"%PDF", content_type="application/pdf")

    async with site({"/": pdf}) as served:
        told = await failure({"url": served.url})
        assert (told.error, told.permanent) == ("parse", True)


async def test_an_inner_address_is_refused_before_any_request() -> None:
    async with site({"/": "secret"}) as served:
        told = await failure({"url": f"http://localhost:{served.port}/"}, allow=frozenset())
        assert (told.error, told.permanent) == ("policy", True)
        assert "loopback" in str(told)
        assert served.hits == []


async def test_a_bad_selector_is_refused_before_any_request(shop: RunningSite) -> None:
    for bad in ("div[", "//h2["):
        told = await failure({"url": shop.url, "selectors": {"good": "p", "title": bad}})
        assert (told.error, told.permanent) == ("input", True)
        assert str(told).startswith("selectors.title: ")
    assert not shop.requests


async def test_a_delay_is_kept(shop: RunningSite) -> None:
    await crawl({"url": f"{shop.url}/products", "depth": 1, "max_pages": 4, "delay_s": 0.4})
    at = [asked.at for asked in shop.requests if asked.path != "/robots.txt"]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert len(gaps) == 3
    # The clock of the request's arrival is a little later than that of its leaving.
    assert min(gaps) > 0.2


async def test_many_at_once_and_no_more() -> None:
    open_now, most = 0, 0
    are_five = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        if open_now == 5:
            are_five.set()
        await are_five.wait()
        # A sixth has the time to come.
        await asyncio.sleep(0.02)
        open_now -= 1
        return web.Response(text="x", content_type="text/html")

    pages: dict[str, Answer | str] = {f"/{n}": slow for n in range(30)}
    pages["/"] = "".join(f'<a href="/{n}">x</a>' for n in range(30))
    async with site(pages) as served:
        await crawl({"url": served.url, "depth": 1, "concurrency": 5})
    assert most == 5


async def test_without_a_container_every_selector_is_a_list() -> None:
    pages: dict[str, Answer | str] = {"/": '<h1>A</h1><a href="/b">b</a>', "/b": "<h1>B</h1><p>text</p>"}
    async with site(pages) as served:
        heard = Heard()
        result = await crawl({"url": f"{served.url}/", "depth": 1, "selectors": {"name": "h1", "text": "p"}}, heard)
    assert result["data"] == {"name": ["A", "B"], "text": ["text"]}
    assert heard.items[0] == {"_url": f"{served.url}/", "name": ["A"], "text": []}


async def test_stray_matches_before_the_container_are_no_data() -> None:
    pages: dict[str, Answer | str] = {
        "/": '<h2 class="title">Welcome</h2><a href="/b">b</a>',
        "/b": '<div class="product"><h2 class="title">Tea</h2><a href="/c">c</a></div>',
        "/c": '<h2 class="title">Goodbye</h2>',
    }
    async with site(pages) as served:
        heard = Heard()
        result = await crawl({"url": served.url, "depth": 2, "selectors": SELECTORS}, heard)
    assert result["data"] == {"products": [{"title": "Tea", "price": None, "url": "/c"}]}
    assert [item["title"] for item in heard.items] == ["Tea"]


async def test_a_crawl_with_containers_json_and_pages_and_what_was_found() -> None:
    async def stock(request: web.Request) -> web.Response:
        return web.json_response({"rows": [{"id": 1, "left": "3"}, {"id": 2}]})

    card = '<div class="card"><h2>{}</h2><i>{}</i></div>'
    pages: dict[str, Answer | str] = {
        "/": card.format("Tea", "$1.50") + card.format("Cup", "soon") + '<a href="/stock.json">stock</a>',
        "/stock.json": stock,
    }
    asked = {
        "extract": {
            "cards": {
                "container": ".card",
                "fields": {"name": "h2", "price": {"selector": "i", "type": "price"}, "gone": "blink"},
            },
            "stock": {"json": "rows", "fields": {"id": "id", "left": {"json": "left", "type": "integer"}}},
        },
        "page": ["markdown"],
    }
    async with site(pages) as served:
        heard = Heard()
        result = await crawl({"url": f"{served.url}/", "depth": 1, **asked}, heard)
    assert result["data"]["cards"] == [
        {"name": "Tea", "price": {"amount": "1.50", "currency": "$"}, "gone": None},
        {"name": "Cup", "price": None, "gone": None},
    ]
    assert result["data"]["stock"] == [{"id": 1, "left": 3}, {"id": 2, "left": None}]
    assert [page["status"] for page in result["data"]["pages"]] == [200, 200]
    assert "Tea" in result["data"]["pages"][0]["markdown"]
    assert {item.get("_name") for item in heard.items} == {"cards", "stock", None}
    fields = result["metrics"]["fields"]
    assert fields["cards.price"] == {"matches": 2, "records": 2, "filled": 1, "type_errors": 1, "fill_rate": 0.5}
    assert result["notes"][-1] == "never matched on 2 pages: cards.gone"


async def test_a_record_too_large_for_an_item_is_cut_and_says_so() -> None:
    html = "".join(f"<p>{'x' * 9_000}</p>" for _ in range(100))
    asked = {"extract": {"all": {"fields": {"first": "p", "texts": {"selector": "p", "all": True}}}}}
    async with site({"/": html}) as served:
        heard = Heard()
        await crawl({"url": f"{served.url}/", **asked}, heard)
    (item,) = heard.items
    assert (len(item["first"]), item["texts"], item["_truncated"]) == (9_000, None, True)


async def test_cancelled_half_way_it_leaves_nothing_open() -> None:
    shop = await start_shop(products=60)
    shop.gate.hold(after=4)
    work = asyncio.create_task(crawl({"url": shop.url, "depth": 5, "max_pages": 999}))
    await shop.gate.wait_held(1)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    async with asyncio.timeout(PATIENCE_S):
        while shop.open_connections:  # noqa: ASYNC110 - nothing tells when the last of them is gone
            await asyncio.sleep(0.01)
    asked = len(shop.requests)
    shop.gate.release()
    await asyncio.sleep(0)
    assert len(shop.requests) == asked
    await shop.close()


async def test_failures_are_logged_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failed_pages, "LOGGED_FAILURES", 3)
    async with site({"/": "".join(f'<a href="/{n}">x</a>' for n in range(20))}) as served:
        heard = Heard()
        result = await crawl({"url": served.url, "depth": 1}, heard)
    assert result["metrics"]["errors"] == {"http": 20}
    assert sum(level == "warning" for level, _ in heard.lines) == 4


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({}, "parameters"),
        ({"url": "example.com"}, "parameters.url"),
        ({"url": "http://"}, "parameters.url"),
        ({"url": "http:///path"}, "parameters.url"),
        ({"url": "http://:80/"}, "parameters.url"),
        ({"url": "ftp://example.com/"}, "parameters.url"),
        ({"url": 7}, "parameters.url"),
        ({"urls": []}, "parameters.urls"),
        ({"urls": ["http://a.test/", "nonsense"]}, "parameters.urls[1]"),
        ({"url": "http://a.test/", "depth": -1}, "parameters.depth"),
        ({"url": "http://a.test/", "max_pages": 0}, "parameters.max_pages"),
        ({"url": "http://a.test/", "max_seconds": 0}, "parameters.max_seconds"),
        ({"url": "http://a.test/", "max_bytes": -5}, "parameters.max_bytes"),
        ({"url": "http://a.test/", "selectors": {"a": 5}}, "parameters.selectors.a"),
        ({"url": "http://a.test/", "selectors": {"_a": "p"}}, "parameters.selectors"),
        ({"url": "http://a.test/", "user_agent": "a\r\nX: y"}, "parameters.user_agent"),
        ({"url": "http://a.test/", "concurrency": 1_000}, "parameters.concurrency"),
        ({"url": "http://a.test/", "dept": 1}, "parameters"),
    ],
)
def test_parameters_of_the_wrong_shape_are_refused_by_name(parameters: dict[str, Any], field: str) -> None:
    types = TaskTypes({"web_crawl": WebCrawl.schema})
    refused = types.find_refusal("web_crawl", msgspec.json.encode(parameters))
    assert refused is not None
    assert refused.field == field


def test_the_schema_takes_the_example_and_is_advertised() -> None:
    example = {"url": "https://example.com/products", "depth": 2, "selectors": SELECTORS}
    types = TaskTypes(builtin_schemas())
    for parameters in (example, {"urls": ["http://[::1]:80/", "HTTP://user:pw@h/"]}, {"url": "http://中国.test"}):
        assert types.find_refusal("web_crawl", msgspec.json.encode(parameters)) is None


async def test_an_archive_has_every_page_as_it_came(shop: RunningSite) -> None:
    heard = Heard()
    product = f"{shop.url}/products/1"
    urls = {"urls": [shop.url, product], "depth": 1, "max_pages": 20}
    result = await crawl({**urls, "archive": "warc"}, heard)
    told = result["metrics"]
    assert told["archive"]["pages"] == told["pages_crawled"] == len(heard.records)
    assert told["archive"]["bytes"] == sum(map(len, heard.records))
    found = {
        one.rec_headers.get_header("WARC-Target-URI"): one.content_stream().read()
        for one in ArchiveIterator(io.BytesIO(b"".join(heard.records)), check_digests="raise")
        if one.rec_type == "response"
    }
    assert found.keys() == {item["_url"] for item in heard.items}
    async with aiohttp.ClientSession() as session, session.get(product) as answer:
        assert found[product] == await answer.read()


async def test_without_being_asked_nothing_is_archived(shop: RunningSite) -> None:
    heard = Heard()
    assert "archive" not in (await crawl({"url": shop.url}, heard))["metrics"]
    assert heard.records == []
