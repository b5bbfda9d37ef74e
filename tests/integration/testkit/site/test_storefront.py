"""The shop of the nasty site: its own list is what a plain walk finds, it changes by version, and its log is true."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest
from protego import Protego
from selectolax.lexbor import LexborHTMLParser, LexborNode

from testkit.site import Rules, RunningSite, SiteOptions, is_trap, running_site
from testkit.site.nasty.robots import VARIANTS
from testkit.site.versioned_catalogue import MARKUPS
from tests.integration.testkit.site.nasty_kit import ask

pytestmark = pytest.mark.integration
PRODUCTS = 260


@pytest.fixture
async def site() -> AsyncIterator[RunningSite]:
    async with running_site(SiteOptions(products=PRODUCTS)) as running:
        yield running


@dataclass
class Read:
    """What a walk makes of one URL."""

    status: int
    is_html: bool
    canonical: str
    links: list[tuple[str, bool]] = field(default_factory=list)
    """Paths on the same host, and whether nofollow holds for them."""


def read(path: str, status: int, headers: Any, body: bytes, origin: str) -> Read:
    if status in {301, 302}:
        return Read(status, True, _local(urljoin(origin + path, headers["Location"]), origin) or "")
    if not headers.get("Content-Type", "").startswith("text/html"):
        return Read(status, False, path)
    tree = LexborHTMLParser(body.decode())
    base = tree.css_first("base[href]")
    at = urljoin(origin + path, str(base.attributes["href"])) if base else origin + path
    meta = tree.css_first("meta[name=robots]")
    is_quiet = "nofollow" in str(meta.attributes["content"] if meta else "") + headers.get("X-Robots-Tag", "")
    own = tree.css_first("link[rel=canonical]")
    page = Read(status, True, _local(urljoin(at, str(own.attributes["href"])), origin) or path if own else path)
    for link in tree.css("a[href], area[href]"):
        href = (link.attributes["href"] or "").strip().replace("\n", "").replace("\t", "")
        try:
            target = _local(urljoin(at, href), origin)
        except ValueError:
            continue
        if target is not None:
            page.links.append((target, is_quiet or "nofollow" in (link.attributes.get("rel") or "").split()))
    return page


def _local(url: str, origin: str) -> str | None:
    url = url.partition("#")[0].replace("HTTP://", "http://")
    return url.removeprefix(origin) or "/" if url == origin or url.startswith(f"{origin}/") else None


async def walk(site: RunningSite, *seeds: str) -> dict[str, Read]:
    """Everything that any link leads to, on this host and out of the traps."""
    found: dict[str, Read] = {}
    waiting = deque(["/", *seeds])
    async with aiohttp.ClientSession() as session:
        while waiting:
            path = waiting.popleft()
            if path in found or is_trap(path):
                continue
            async with session.get(_exactly(site.url + path), allow_redirects=False) as response:
                page = read(path, response.status, response.headers, await response.read(), site.url)
            found[path] = page
            waiting += [page.canonical] if page.status == 301 else [target for target, _ in page.links]
    return found


def _exactly(url: str) -> Any:
    from yarl import URL

    return URL(url, encoded=True)


def under(rules: Rules, found: dict[str, Read], robots: Protego, url: str, *seeds: str) -> list[str]:
    """The same walk again, in memory and by the rules."""
    seen: set[str] = set()
    waiting = ["/", *seeds]
    while waiting:
        path = waiting.pop()
        if path in seen or path not in found or (rules.robots and not robots.can_fetch(url + path, "crawlfleet")):
            continue
        seen.add(path)
        page = found[path]
        waiting += [page.canonical] if page.status == 301 else []
        waiting += [target for target, is_nofollow in page.links if not (is_nofollow and rules.nofollow)]
    return sorted(
        path
        for path in seen
        if found[path].status == 200
        and (found[path].is_html or rules.files)
        and (found[path].canonical == path or not rules.canonical)
    )


def all_rules() -> Iterator[Rules]:
    for bits in range(16):
        yield Rules(bool(bits & 1), bool(bits & 2), bool(bits & 4), bool(bits & 8))


async def test_its_own_list_is_what_a_walk_finds(site: RunningSite) -> None:
    found = await walk(site)
    robots = Protego.parse((await ask(site, "/robots.txt")).body.decode())
    for rules in all_rules():
        assert site.site.reachable(rules) == under(rules, found, robots, site.url), rules
    assert {path for path, page in found.items() if page.status == 404} == {"/sold-out"}
    assert {page.status for page in found.values()} == {200, 301, 404}
    plain, loose = site.site.reachable(), site.site.reachable(Rules(False, False, False, True))
    assert PRODUCTS < len(plain) < len(loose)
    # Each rule makes a difference, or it would not be tested here.
    assert len({tuple(site.site.reachable(rules)) for rules in all_rules()}) == 16


async def test_sitemaps_name_what_nothing_links_to(site: RunningSite) -> None:
    async def named(path: str) -> list[str]:
        body = (await ask(site, path)).body
        text = (gzip.decompress(body) if path.endswith(".gz") else body).decode()
        return [part.partition("</loc>")[0].removeprefix(site.url) for part in text.split("<loc>")[1:]]

    pages = [page for part in await named("/sitemap.xml") for page in await named(part)]
    only = set(pages) - set(site.site.reachable())
    assert only == set(site.site.reachable(Rules(sitemaps=True))) - set(site.site.reachable())
    assert len(only) == 20
    assert {f"/products/{number}" for number in range(1, PRODUCTS + 1)} <= set(pages)


async def test_traps_are_linked_to_only_when_asked_for() -> None:
    async with running_site(SiteOptions(products=20, has_traps=True)) as site:
        found = await walk(site)
        robots = Protego.parse((await ask(site, "/robots.txt")).body.decode())
        assert under(Rules(), found, robots, site.url) == site.site.reachable()
        assert any(is_trap(target) for target, _ in found["/traps"].links)


def one(tree: LexborHTMLParser, selector: str) -> LexborNode:
    (found,) = tree.css(selector)
    return found


async def test_items_stand_on_their_pages(site: RunningSite) -> None:
    items = site.site.items()
    assert {item["markup"] for item in items} == set(MARKUPS)
    assert len({item["currency"] for item in items}) > 5
    for item in items[:60]:
        tree = LexborHTMLParser((await ask(site, item["path"])).body.decode())
        assert one(tree, "h2.title").text() == item["title"]
        assert one(tree, "span.price").text() == item["price_text"]
        machine = tree.css_first("script[type='application/ld+json']")
        said = machine.text() if machine else ""
        match item["markup"]:
            case "json-ld" | "graph" | "offers":
                assert item["title"] in json.dumps(json.loads(said), ensure_ascii=False)
            case "stale":
                assert json.loads(said)["offers"]["price"] != item["price"]
            case "broken":
                with pytest.raises(json.JSONDecodeError):
                    json.loads(said)
            case "microdata":
                assert one(tree, "[itemprop=price]").attributes["content"] == item["price"]
            case "open-graph":
                assert one(tree, "meta[property='product:price:amount']").attributes["content"] == item["price"]
            case _:
                assert said == ""


async def test_the_api_and_the_feeds_have_every_product(site: RunningSite) -> None:
    path, products = "/api/products", list[dict[str, Any]]()
    while path:
        page = json.loads((await ask(site, path)).body)
        products += page["products"]
        path = page["next"]
    assert products == site.site.items() == json.loads((await ask(site, "/feeds/products.json")).body)
    assert (await ask(site, "/feeds/products.csv")).body.count(b"\r\n") == PRODUCTS + 1
    assert json.loads((await ask(site, "/api/products/7")).body) == products[6]
    assert (await ask(site, "/images/7.jpg")).headers["Content-Type"] == "image/jpeg"
    assert (await ask(site, "/files/manual-4.pdf")).body.startswith(b"%PDF")
    for missing in (
        "/api/products/9999",
        "/api/x",
        "/images/x.jpg",
        "/feeds/x",
        "/sitemaps/x.xml",
        "/products/1/x",
        "/p/9999",
    ):
        assert (await ask(site, missing)).status == 404, missing


async def test_search_finds_by_word(site: RunningSite) -> None:
    wanted = {item["path"] for item in site.site.items() if "kettle" in item["title"].lower()}
    body = (await ask(site, "/search?q=KETTLE")).body.decode()
    assert body.count('class="product"') == len(wanted) > 3
    assert (await ask(site, "/search?q=nothing+like+it")).body.count(b'class="product"') == 0


async def test_the_same_seed_gives_the_same_bytes() -> None:
    async def bodies(seed: int) -> dict[str, bytes]:
        async with running_site(SiteOptions(products=60, seed=seed)) as site:
            paths = [path for path in site.site.reachable() if path != "/"]
            return {path: (await ask(site, path, host="same.test")).raw for path in paths[:80]}

    first, again, other = await bodies(1), await bodies(1), await bodies(2)
    assert first == again
    assert first["/products/7"] != other["/products/7"]


async def test_a_page_of_a_size() -> None:
    async with running_site(SiteOptions(products=20, page_bytes=30_000)) as site:
        assert 30_000 <= len((await ask(site, "/products/3")).body) < 31_000


async def test_versions_change_what_they_say(site: RunningSite) -> None:
    rules = Rules(files=True)
    before = {path: await ask(site, path) for path in site.site.reachable(rules)}
    told = site.site.changes(1, 2, rules)
    site.site.set_version(2)
    after = {path: await ask(site, path) for path in site.site.reachable(rules)}
    assert told.new == sorted(after.keys() - before.keys()) != []
    assert told.gone == sorted(before.keys() - after.keys()) != []
    assert told.changed == sorted(
        path for path in before.keys() & after.keys() if before[path].body != after[path].body
    )
    assert 0 < len(told.changed) < len(after)
    gone = next(path for path in told.gone if path.startswith("/products/") and "?" not in path)
    assert (await ask(site, gone)).status == 410


async def test_conditional_requests(site: RunningSite) -> None:
    async def status(path: str, *headers: str) -> int:
        return (await ask(site, path, headers=headers)).status

    told = site.site.changes(1, 2)
    changed, same = (
        next(path for path in paths if path.startswith("/products/"))
        for paths in (told.changed, sorted(set(site.site.reachable()) - set(told.changed) - set(told.gone)))
    )
    first = {path: (await ask(site, path)).headers for path in (changed, same)}
    for path, headers in first.items():
        assert await status(path, f"If-None-Match: {headers['ETag']}") == 304
        assert await status(path, f'If-None-Match: "x", W/{headers["ETag"]}') == 304
        assert await status(path, 'If-None-Match: "x"', f"If-Modified-Since: {headers['Last-Modified']}") == 200
        assert await status(path, "If-Modified-Since: yesterday") == 200
    site.site.set_version(2)
    for path, expected in ((changed, 200), (same, 304)):
        assert await status(path, f"If-None-Match: {first[path]['ETag']}") == expected
        assert await status(path, f"If-Modified-Since: {first[path]['Last-Modified']}") == expected
    with pytest.raises(ValueError, match="version"):
        site.site.set_version(0)


async def test_robots_by_the_name_of_the_host(site: RunningSite) -> None:
    for variant in set(VARIANTS) - {"shop", "sitemaps", "stall", "slow", "endless", "reset", "huge"}:
        by_name = await ask(site, "/robots.txt", host=f"robots-{variant}.shop.test:8080")
        assert by_name.raw == (await ask(site, f"/nasty/robots/{variant}")).raw, variant
    named = (await ask(site, "/robots.txt", host="robots-sitemaps.shop.test:8080")).body
    assert named.startswith(b"Sitemap: http://robots-sitemaps.shop.test:8080/nasty/sitemap/loop\n")
    own = (await ask(site, "/robots.txt", host="any.test:81")).body
    assert b"Disallow: /private/" in own and b"Sitemap: http://any.test:81/sitemap.xml" in own


async def test_large_and_endless_robots(site: RunningSite) -> None:
    huge = await ask(site, "/robots.txt", host="robots-huge.test", most=6_000_000, silence_s=2)
    assert huge.is_whole and len(huge.body) > 4_900_000 and huge.body.endswith(b"Disallow: /products/2\n")
    assert (await ask(site, "/robots.txt", host="robots-endless.test")).ended == "full"
    site.site.robots = "500"
    assert (await ask(site, "/robots.txt")).status == 500


async def test_a_rate_for_the_whole_site() -> None:
    async with running_site(SiteOptions(products=20, most_per_second=8)) as site:
        site.site.memory.clock = lambda: 100.0
        heard = await asyncio.gather(*(ask(site, f"/products/{number}") for number in range(1, 13)))
        assert sorted(it.status for it in heard) == [200] * 8 + [429] * 4
        # Another name is another host, with a budget of its own.
        assert (await ask(site, "/products/1", host="other.test")).status == 200
