"""The shop's server, and its log of what it was asked."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from crawlfleet.shop import pages
from crawlfleet.shop.catalogue import CATEGORIES, Catalogue

REQUESTS_KEPT = 50_000
SLOW_S = 2.0
ROBOTS = "User-agent: *\nDisallow: /private/\nDisallow: /cart\n\nSitemap: {origin}/sitemap.xml\n"


class Asked(NamedTuple):
    at: float
    """By the monotonic clock."""
    method: str
    path: str
    """With the query."""
    agent: str


class RunningShop:
    def __init__(self, runner: web.AppRunner, url: str, catalogue: Catalogue, requests: deque[Asked]) -> None:
        self._runner = runner
        self.url = url
        """Without a slash at the end."""
        self.catalogue = catalogue
        self.requests = requests
        """The last ones, oldest first."""

    def asked_paths(self) -> list[str]:
        return [asked.path for asked in self.requests]

    async def close(self) -> None:
        await self._runner.cleanup()


async def start_shop(
    host: str = "127.0.0.1", port: int = 0, products: int = 200, *, seed: int = 1, delay_s: float = 0.0
) -> RunningShop:
    """Serves until it is closed. `delay_s` is what every answer takes at least, as over a network."""
    catalogue = Catalogue(products, seed)
    requests: deque[Asked] = deque(maxlen=REQUESTS_KEPT)
    runner = web.AppRunner(_app(catalogue, requests, delay_s), access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except BaseException:
        await runner.cleanup()
        raise
    shown = f"[{host}]" if ":" in host else host
    return RunningShop(runner, f"http://{shown}:{runner.addresses[0][1]}", catalogue, requests)


def _app(catalogue: Catalogue, requests: deque[Asked], delay_s: float) -> web.Application:
    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        requests.append(Asked(time.monotonic(), request.method, request.path_qs, agent))
        if delay_s:
            await asyncio.sleep(delay_s)
        return await handler(request)

    app = web.Application(middlewares=[note])
    shop = _Shop(catalogue)
    app.add_routes(
        [
            web.get("/", shop.front),
            web.get("/about", shop.about),
            web.get("/awkward", shop.awkward),
            web.get("/products", shop.products),
            web.get(r"/products/{number:\d{1,9}}", shop.product),
            web.get("/category/{slug}", shop.category),
            web.get("/robots.txt", shop.robots),
            web.get("/sitemap.xml", shop.sitemap),
            web.get("/slow", shop.slow),
            web.get("/moved", shop.moved),
            web.get("/broken-charset", shop.broken_charset),
            web.get("/chinese", shop.chinese),
            web.get("/private/cellar", shop.cellar),
        ]
    )
    return app


class _Shop:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def front(self, request: web.Request) -> web.Response:
        return _html(pages.front(self._catalogue))

    async def about(self, request: web.Request) -> web.Response:
        return _html(pages.about())

    async def awkward(self, request: web.Request) -> web.Response:
        return _html(pages.awkward())

    async def products(self, request: web.Request) -> web.Response:
        return _html(pages.listing("All products", "/products", self._catalogue.products, _page(request)))

    async def category(self, request: web.Request) -> web.Response:
        slug = request.match_info["slug"]
        if slug not in CATEGORIES:
            raise web.HTTPNotFound
        products = self._catalogue.by_category[slug]
        return _html(pages.listing(CATEGORIES[slug], f"/category/{slug}", products, _page(request)))

    async def product(self, request: web.Request) -> web.Response:
        product = self._catalogue.product(int(request.match_info["number"]))
        if product is None:
            raise web.HTTPNotFound
        return _html(pages.detail(product, self._catalogue.related(product)))

    async def robots(self, request: web.Request) -> web.Response:
        return web.Response(text=ROBOTS.format(origin=_origin(request)))

    async def sitemap(self, request: web.Request) -> web.Response:
        text = pages.sitemap(_origin(request), self._catalogue.paths())
        return web.Response(text=text, content_type="application/xml")

    async def slow(self, request: web.Request) -> web.Response:
        await asyncio.sleep(SLOW_S)
        return _html(pages.page("Slow", "<p>Thank you for waiting.</p>"))

    async def moved(self, request: web.Request) -> web.Response:
        raise web.HTTPMovedPermanently("/products")

    async def broken_charset(self, request: web.Request) -> web.Response:
        """Says UTF-8 twice and is neither."""
        text = pages.page("Café", '<div class="product"><h2 class="title">Crème brûlée</h2></div>')
        return web.Response(body=text.encode("cp1252"), headers={"Content-Type": "text/html; charset=utf-8"})

    async def chinese(self, request: web.Request) -> web.Response:
        """Its charset stands in the page only."""
        text = pages.page("商店", '<div class="product"><h2 class="title">茶壶</h2></div>', charset="gbk")
        return web.Response(body=text.encode("gbk"), headers={"Content-Type": "text/html"})

    async def cellar(self, request: web.Request) -> web.Response:
        return _html(pages.page("The cellar", "<p>robots.txt asks robots not to come here.</p>"))


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def _page(request: web.Request) -> int:
    number = request.query.get("page", "1")
    if not (number.isascii() and number.isdigit() and len(number) < 7 and int(number)):
        raise web.HTTPNotFound
    return int(number)


def _origin(request: web.Request) -> str:
    return f"{request.scheme}://{request.host}"
