"""The shop family against real servers: what it keeps, what it returns, and what it says of pages that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from aiohttp import web

from crawlfleet.execution.executors.builtin.batch_products import BatchProducts
from crawlfleet.execution.executors.builtin.full_sync import FullSync
from crawlfleet.execution.executors.builtin.search_keywords import SearchKeywords
from crawlfleet.execution.executors.builtin.shop_crawl import ShopCrawl
from crawlfleet.execution.executors.builtin.single_product import SingleProduct
from crawlfleet.execution.executors.inside.parameter_check import build_check
from crawlfleet.execution.executors.shops.product_visits import run_concurrently
from crawlfleet.execution.sdk import Executor, TaskContext, TaskError, TryLater
from crawlfleet.wire.products import ReportDown, UnseenBody, UnseenDown
from testkit.site import RunningSite, SiteOptions, start_site
from tests.unit.execution.crawl.crawl_kit import LOOPBACK, Answer, Heard, site

pytestmark = pytest.mark.integration
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
POT = """<script type="application/ld+json">{"@type": "Product", "name": "Pot", "sku": "%s",
"offers": {"price": 5, "priceCurrency": "EUR"}}</script>"""


class Master:
    """Knows of products that were not seen, and heard what it was asked."""

    def __init__(self, *unseen: UnseenBody) -> None:
        self.unseen = list(unseen)
        self.asked: list[str] = []

    async def report_crawl(self, body: bytes) -> bytes:
        raise NotImplementedError

    async def send_request(self, endpoint: str, body: bytes) -> bytes:
        self.asked.append(endpoint)
        if endpoint == "products:unseen":
            return msgspec.json.encode(UnseenDown(self.unseen))
        return msgspec.json.encode(ReportDown([1, 2, 3, 4, 0]))


async def run(
    kind: type[Executor], parameters: dict[str, Any], heard: Heard | None = None, master: Master | None = None
) -> Any:
    build_check(kind)(parameters)
    context = TaskContext(
        heard or Heard(),
        task_id="task-0192f0c4a5b6c7d8",
        execution_id="exec-1",
        task_type=kind.task_type,
        parameters=parameters,
        allow_hosts=LOOPBACK,
        master=master,
    )
    return await kind().run(context)


async def failure(kind: type[Executor], parameters: dict[str, Any]) -> TaskError:
    with pytest.raises(TaskError) as told:
        await run(kind, parameters)
    return told.value


@pytest.fixture
async def shop() -> AsyncIterator[RunningSite]:
    running = await start_site(SiteOptions(products=40), "127.0.0.1", 0)
    yield running
    await running.close()


async def test_a_single_product(shop: RunningSite) -> None:
    heard = Heard()
    result = await run(SingleProduct, {"url": f"{shop.url}/products/3", "selectors": SELECTORS}, heard)
    (product,) = heard.products
    assert result == {"product_id": product.id, "url": f"{shop.url}/products/3", "status": "success"}
    assert (product.shop, product.url) == (shop.url.removeprefix("http://"), f"{shop.url}/products/3")
    assert heard.items[0]["product_id"] == product.id


async def test_pages_that_show_no_product(shop: RunningSite) -> None:
    told = await failure(SingleProduct, {"url": f"{shop.url}/about"})
    assert (told.error, told.permanent) == ("parse", True)
    assert "shows no product" in str(told)
    told = await failure(SingleProduct, {"url": f"{shop.url}/products/999"})
    assert (told.error, told.permanent) == ("http", True)
    told = await failure(SingleProduct, {"url": "http://127.0.0.1:1/"})
    assert (told.error, told.permanent) == ("network", False)
    told = await failure(SingleProduct, {"url": "http://10.0.0.1/"})
    assert told.error == "policy"


async def test_a_known_product_may_be_gone() -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500)

    async def moved(_: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("/empty")

    pages: dict[str, Answer | str] = {
        "/a": POT % "A",
        "/empty": "<h1>No more</h1>",
        "/moved": moved,
        "/busy": busy,
        "/other": POT % "B",
    }
    async with site(pages) as served:
        for path, status in (
            ("a", "success"),
            ("empty", "gone"),
            ("moved", "gone"),
            ("none", "gone"),
            ("other", "gone"),
        ):
            heard = Heard()
            url = f"{served.url}/{path}"
            result = await run(SingleProduct, {"url": url, "product_id": "A"}, heard)
            assert result == {"product_id": "A", "url": url, "status": status}
            assert [one.id for one in heard.products if one.is_gone] == (["A"] if status == "gone" else [])
        told = await failure(SingleProduct, {"url": f"{served.url}/busy", "product_id": "A"})
        assert (told.error, told.permanent) == ("http", False)


async def test_pages_whose_structured_data_is_broken_are_told_and_not_taken_for_gone() -> None:
    cut = (POT % "A").replace("}}", "")
    pages: dict[str, Answer | str] = {"/": '<a href="/a">A</a><a href="/b">B</a>', "/a": cut, "/b": POT % "B"}
    async with site(pages) as served:
        url = f"{served.url}/a"
        told = await failure(SingleProduct, {"url": url})
        assert "its structured data is no JSON" in str(told)
        heard = Heard()
        with pytest.raises(TaskError):
            await run(SingleProduct, {"url": url, "product_id": "A"}, heard)
        assert heard.products == []
        result = await run(ShopCrawl, {"url": served.url})
        assert result["products"] == 1
        assert "structured data that is no JSON" in result["notes"][0]
        master = Master(UnseenBody(1, "A", url))
        result = await run(ShopCrawl, {"url": served.url, "known_only": True, "since": 5}, heard, master)
        assert (result["gone"], result["unsure"]) == (0, 1)
        report = await run(FullSync, {"url": served.url}, heard, Master())
        assert "structured data that is no JSON" in report["notes"][0]


async def test_a_batch_that_is_part_of_something_else() -> None:
    async with site({"/a": POT % "A", "/b": POT % "B", "/empty": ""}) as served:
        urls = [f"{served.url}/{name}" for name in ("a", "none", "b", "empty")]
        heard = Heard()
        result = await run(BatchProducts, {"urls": urls, "batch_size": 3}, heard)
    assert {name: result[name] for name in ("total", "success", "failed")} == {"total": 4, "success": 2, "failed": 2}
    assert [detail["product_id"] for detail in result["details"]] == ["A", None, "B", None]
    assert result["details"][0] == {"product_id": "A", "url": urls[0], "status": "success"}
    assert result["details"][1]["error"].endswith("answers 404")
    assert {one.id for one in heard.products} == {"A", "B"}


async def test_a_batch_that_puts_its_children_together() -> None:
    urls = [f"http://shop.test/{at}" for at in range(5)]
    children = [{"ids": ["A", None], "reasons": {"1": "answers 404"}}, {"ids": [None, "D"], "reasons": {}}]
    result = await run(BatchProducts, {"urls": urls, "batch_size": 2, "children": children})
    assert (result["total"], result["success"], result["failed"]) == (5, 2, 3)
    errors = [detail.get("error") for detail in result["details"]]
    assert errors == [None, "answers 404", "did not complete", None, "was not looked at"]
    heard = Heard()
    many = await run(BatchProducts, {"urls": urls * 500, "children": []}, heard)
    assert many["details_truncated"] is True
    assert len(msgspec.json.encode(many)) < 64 << 10
    assert len(heard.items) == many["failed"] == 2_500


async def test_a_crawl_finds_every_product_once(shop: RunningSite) -> None:
    heard = Heard()
    result = await run(
        ShopCrawl, {"url": shop.url, "selectors": SELECTORS, "product_pages": ["/products/\\d+$"]}, heard
    )
    expected = {item["path"]: item for item in shop.site.items()}
    found = {one.url.removeprefix(shop.url): one for one in heard.products}
    assert found.keys() == expected.keys()
    assert len({one.id for one in heard.products}) == len(heard.products) == result["products"] == 40
    assert result["complete"] is True
    assert result["shop"] == shop.url.removeprefix("http://")
    for path, product in found.items():
        assert product.title == expected[path]["title"]
        if expected[path]["markup"] != "stale":
            assert Decimal(product.price or "") == Decimal(expected[path]["price"]), path


async def test_a_crawl_that_stops_early_says_so(shop: RunningSite) -> None:
    result = await run(ShopCrawl, {"url": shop.url, "max_pages": 5})
    assert result["complete"] is False
    assert result["metrics"]["stopped_by"] == "max_pages"


async def test_products_that_were_not_met_are_looked_at_again() -> None:
    async def busy(_: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    async with site({"/a": POT % "A", "/busy": busy}) as served:
        shop = served.url.removeprefix("http://")
        unseen = [UnseenBody(at, name, f"{served.url}/{name.lower()}") for at, name in enumerate(("A", "busy", "gone"))]
        heard, master = Heard(), Master(*unseen)
        result = await run(ShopCrawl, {"url": served.url, "known_only": True, "since": 5}, heard, master)
    assert result == {"shop": shop, "looked_at": 3, "gone": 1, "unsure": 1}
    assert {(one.id, one.is_gone, one.shop) for one in heard.products} == {("A", False, shop), ("gone", True, shop)}


async def test_what_stops_one_visit_stops_all_as_it_is() -> None:
    ended: list[str] = []

    async def away() -> None:
        raise TryLater("the host is away", 30.0)

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    with pytest.raises(TryLater, match="the host is away"):
        await run_concurrently([other(), away()])
    assert ended == ["cancelled"]


async def test_words_are_searched_for(shop: RunningSite) -> None:
    product = next(iter(shop.site.items()))
    word = product["title"].split()[1]
    heard = Heard()
    parameters = {
        "url": f"{shop.url}/search?q={{keyword}}",
        "keywords": [word, "nothing like it", word],
        "product_pages": ["/products/\\d+$", "/p/\\d+$"],
        "selectors": SELECTORS,
        "respect_robots": False,
    }
    result = await run(SearchKeywords, parameters, heard)
    assert (result["total"], result["success"], result["failed"]) == (2, 2, 0)
    found = {detail["keyword"]: detail["products"] for detail in result["details"]}
    assert found[word] == len(heard.products) > 0
    assert found["nothing like it"] == 0
    assert all(word in one.title for one in heard.products)


async def test_a_search_that_fails() -> None:
    async with site({"/s": "<p>none</p>"}) as served:
        url = f"{served.url}/s{{keyword}}"
        told = await failure(SearchKeywords, {"url": url, "keywords": ["x", "y"]})
        assert told.error == "http"
        result = await run(SearchKeywords, {"url": f"{served.url}/s?q={{keyword}}", "keywords": ["a b&c"]})
        assert result["details"] == [{"keyword": "a b&c", "status": "success", "products": 0, "pages": 1}]
        assert "/s?q=a+b%26c" in served.hits


async def test_a_sync_that_is_part_of_something_else(shop: RunningSite) -> None:
    heard, master = Heard(), Master()
    result = await run(FullSync, {"url": shop.url}, heard, master)
    assert {name: result[name] for name in ("new", "changed", "gone", "unchanged")} == {
        "new": 1,
        "changed": 2,
        "gone": 3,
        "unchanged": 4,
    }
    assert master.asked[0] == "products:unseen"
    assert result["steps"]["crawl"]["products"] == len(heard.products)
    assert result["complete"] is True


@pytest.mark.parametrize(
    ("kind", "parameters", "field"),
    [
        (SingleProduct, {}, "parameters"),
        (SingleProduct, {"url": "ftp://x"}, "parameters.url"),
        (SingleProduct, {"url": "http://["}, "parameters.url"),
        (SingleProduct, {"url": "http://x/", "selectors": {"price": "b["}}, "parameters.selectors.price"),
        (SingleProduct, {"url": "http://x/", "selectors": {"product": "div"}}, "parameters.selectors.product"),
        (SingleProduct, {"url": "http://x/", "depth": 1}, "parameters"),
        (BatchProducts, {"urls": []}, "parameters.urls"),
        (BatchProducts, {"urls": ["http://x/", "nothing"]}, "parameters.urls[1]"),
        (BatchProducts, {"urls": ["http://x/"], "batch_size": 0}, "parameters.batch_size"),
        (ShopCrawl, {"url": "http://x/", "max_pages": -1}, "parameters.max_pages"),
        (ShopCrawl, {"url": "http://x/", "product_pages": ["a", "(?=b)"]}, "parameters.product_pages[1]"),
        (ShopCrawl, {"url": "http://x/", "follow": {"deny": ["("]}}, "parameters.follow.deny[0]"),
        (SearchKeywords, {"url": "http://x/?q=a", "keywords": ["a"]}, "parameters.url"),
        (SearchKeywords, {"url": "http://x/?q={keyword}", "keywords": [""]}, "parameters.keywords[0]"),
        (FullSync, {"url": "http://x/", "keywords": ["a"]}, "parameters.search_url"),
        (FullSync, {"url": "http://x/", "search_url": "http://x/?q={keyword}"}, "parameters.keywords"),
    ],
)
def test_bad_parameters_are_named(kind: type[Executor], parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(TaskError) as told:
        build_check(kind)(parameters)
    assert str(told.value).startswith(f"{field}: ")
    assert (told.value.error, told.value.permanent) == ("input", True)
