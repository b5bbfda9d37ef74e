"""The engine against the nasty shop: what a crawl finds is the site's own list, each page once, each item as it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest

from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from testkit.site import Rules, RunningSite, SiteOptions, is_trap, running_site
from tests.unit.execution.crawl.crawl_kit import Heard, crawl

pytestmark = pytest.mark.integration
PRODUCTS = 400
FRAME = "/map/frame"
"""Not in the site's list, for which a frame is no link. For a crawl it is one."""
TRAPS = {"calendar": 20, "session": 20, "query": 20, "id": 20, "pattern": 500}
PRODUCT = re.compile(r"/products/[0-9]+")
EXTRACT = {
    "products": {
        "container": "main div.product",
        "fields": {
            "sku": {"attribute": "data-id"},
            "title": "h2.title",
            "price": {"selector": "span.price", "type": "price"},
        },
    }
}


@pytest.fixture
async def shop() -> AsyncIterator[RunningSite]:
    async with running_site(SiteOptions(products=PRODUCTS, has_traps=True)) as running:
        yield running


async def crawled(shop: RunningSite, **parameters: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    shop.log.clear()
    heard = Heard()
    asked = {"url": f"{shop.url}/", "depth": 1_000, "max_pages": 20_000, "traps": TRAPS, "concurrency": 16}
    result = await crawl(asked | parameters, heard)
    assert result["metrics"]["stopped_by"] is None
    return heard.items, result


def listed(shop: RunningSite, rules: Rules) -> set[str]:
    """The site's list, as a crawl calls its pages: tracking parameters are no part of a page's name."""
    normalise = Normaliser()
    return {normalise(shop.url + path).removeprefix(shop.url) for path in shop.site.reachable(rules)}


@pytest.mark.parametrize(
    ("parameters", "rules"),
    [
        ({}, Rules(nofollow=False, canonical=False)),
        ({"follow": {"obey_nofollow": True}}, Rules(canonical=False)),
        ({"respect_robots": False, "sitemaps": True}, Rules(False, False, False, sitemaps=True)),
        ({"follow": {"deny": ["/p/[0-9]+$", "[?&]sort="], "obey_nofollow": True}}, Rules()),
        ({"follow": {"obey_canonical": True, "obey_nofollow": True}}, Rules()),
    ],
    ids=["all links", "nofollow", "no robots, sitemaps", "one name for each", "canonical"],
)
async def test_every_page_is_found_once(shop: RunningSite, parameters: dict[str, Any], rules: Rules) -> None:
    items, result = await crawled(shop, **parameters)
    found = Counter(item["url"].removeprefix(shop.url) for item in items)
    assert {path for path in found if not is_trap(path)} == listed(shop, rules) | {FRAME}
    assert set(found.values()) == {1}
    assert result["metrics"]["pages_crawled"] == len(items)
    # What fails is what the site says is not there, and what robots.txt does not allow.
    assert result["metrics"]["errors"].pop("http") == 1
    assert result["metrics"]["errors"].keys() <= {"policy"}


async def test_traps_end_and_are_told_of(shop: RunningSite) -> None:
    items, result = await crawled(shop, follow={"deny": ["/products", "/category", "/search", "/p/"]})
    trapped = Counter(re.findall(r"/nasty/trap/([a-z]+)", "\n".join(item["url"] for item in items)))
    assert {name: trapped[name] for name in ("calendar", "words", "soft", "counter", "session")} == {
        # The page that leads into it, and as many as its guard lets pass; a session's id is no part of a page's name.
        "calendar": 1 + 20,
        "words": 1 + 20,
        "soft": 1 + 20,
        "counter": 1 + 500,
        "session": 1 + 3,
    }
    assert max(trapped["facets"], trapped["deeper"], trapped["relative"]) < 400
    guards = {name for name in result["metrics"]["links_left_out"] if name.startswith("trap: ")}
    assert guards == {f"trap: {guard}" for guard in ("calendar", "id", "pattern", "query", "repeats")}
    assert len([note for note in result["notes"] if note.startswith("trap: ")]) == len(guards)
    assert {"/about", FRAME} <= {item["url"].removeprefix(shop.url) for item in items}


async def test_items_are_those_of_the_site(shop: RunningSite) -> None:
    items, _ = await crawled(shop, extract=EXTRACT, follow={"deny": ["/nasty/", "/p/[0-9]+$", "[?&]sort="]})
    own = [item for item in items if PRODUCT.fullmatch(item["_url"].removeprefix(shop.url))]
    got = {item["sku"]: (item["_url"].removeprefix(shop.url), item["title"], amount(item)) for item in own}
    assert len(own) == len(got) == PRODUCTS
    assert got == {item["sku"]: (item["path"], item["title"], Decimal(item["price"])) for item in shop.site.items()}


def amount(item: dict[str, Any]) -> Decimal:
    return Decimal(str(item["price"]["amount"]))
