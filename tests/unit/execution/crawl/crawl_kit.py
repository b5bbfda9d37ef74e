"""Real servers on loopback, as awkward as a test needs them, and what hears of a crawl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from crawlfleet.execution.crawl.fetch.fetcher import Fetcher, FetchLimits
from crawlfleet.execution.executors.builtin.web_crawl import WebCrawl
from crawlfleet.execution.sdk import TaskContext
from crawlfleet.model.product import Product
from crawlfleet.network.address_guard import AddressGuard

LOOPBACK = frozenset({"127.0.0.1"})
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    url: str
    port: int
    hits: list[str] = field(default_factory=list)


@asynccontextmanager
async def site(pages: Mapping[str, Answer | str], host: str = "127.0.0.1") -> AsyncIterator[Site]:
    """Serves pages by path: HTML as text, or a function."""
    served = Site("", 0)

    async def answer(request: web.Request) -> web.StreamResponse:
        served.hits.append(request.path_qs)
        page = pages.get(request.path)
        if page is None:
            raise web.HTTPNotFound
        return web.Response(text=page, content_type="text/html") if isinstance(page, str) else await page(request)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    served.port = runner.addresses[0][1]
    served.url = f"http://{host}:{served.port}"
    try:
        yield served
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_site(talk: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[Site]:
    """A server below HTTP: says what it likes after the request's head."""
    served = Site("", 0)
    talks: set[asyncio.Task[Any] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            served.hits.append(head.split(b" ")[1].decode())
            await talk(writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    served.url = f"http://127.0.0.1:{served.port}"
    try:
        yield served
    finally:
        server.close()
        for task in talks:
            if task is not None:
                task.cancel()
                await asyncio.wait([task])


def fetcher(*, allow: frozenset[str] = LOOPBACK, limits: FetchLimits | None = None, **more: Any) -> Fetcher:
    return Fetcher(AddressGuard(allow), user_agent="crawlfleet/test", limits=limits, **more)


class Heard:
    """The stream of an execution, kept."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.lines: list[tuple[str, str]] = []
        self.figures: dict[str, Any] = {}
        self.records: list[bytes] = []
        self.products: list[Product] = []

    async def item(self, item: Mapping[str, Any]) -> None:
        self.items.append(dict(item))

    async def record(self, record: bytes) -> None:
        self.records.append(record)

    async def product(self, product: Product) -> None:
        self.products.append(product)

    async def send_products(self) -> None:
        pass

    async def parts(self, _task: str) -> AsyncIterator[bytes]:
        """What it heard, as a later task reads it."""
        for item in self.items:
            yield msgspec.json.encode(item) + b"\n"

    def log(self, message: str, level: str) -> None:
        self.lines.append((level, message))

    def progress(self, figures: Mapping[str, Any]) -> None:
        self.figures.update(figures)


async def crawl(
    parameters: dict[str, Any],
    heard: Heard | None = None,
    *,
    allow: frozenset[str] = LOOPBACK,
    earlier: Heard | None = None,
) -> dict[str, Any]:
    context = TaskContext(
        heard or Heard(),
        task_id="task-1",
        execution_id="exec-1",
        task_type="web_crawl",
        parameters=parameters,
        allow_hosts=allow,
    )
    if earlier is not None:
        context.earlier = earlier.parts
    result: dict[str, Any] = await WebCrawl().run(context)
    return result
