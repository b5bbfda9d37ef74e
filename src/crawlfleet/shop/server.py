"""The running shop: as a part of a program, in a thread of a test, or as the process of `python -m crawlfleet.shop`."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from crawlfleet.shop.catalogue import Catalogue
from crawlfleet.shop.connection import Connection
from crawlfleet.shop.log import Asked, RequestLog
from crawlfleet.shop.page_gate import PageGate, page_delay_s
from crawlfleet.shop.site import Site, SiteOptions


class RunningShop:
    def __init__(self, server: asyncio.Server, url: str, site: Site, opened: set[Connection]) -> None:
        self._server = server
        self._opened = opened
        self.url = url
        """Without a slash at the end."""
        self.site = site

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    @property
    def catalogue(self) -> Catalogue:
        return self.site.shop.catalogue

    @property
    def log(self) -> RequestLog:
        return self.site.log

    @property
    def requests(self) -> deque[Asked]:
        """The last ones, oldest first."""
        return self.site.log.asked

    @property
    def gate(self) -> PageGate:
        return self.site.gate

    @property
    def open_connections(self) -> frozenset[Connection]:
        return frozenset(self._opened)

    def asked_paths(self) -> list[str]:
        return self.site.log.paths()

    async def close(self) -> None:
        """Nobody is waited for: some answers here never end."""
        self._server.close()
        for connection in list(self._opened):
            connection.transport.abort()
        await asyncio.gather(*(connection.ended.wait() for connection in list(self._opened)))
        await self._server.wait_closed()


async def start_shop(
    host: str = "127.0.0.1", port: int = 0, products: int = 200, *, seed: int = 1, delay_s: float = 0.0
) -> RunningShop:
    """The demo shop. Serves until it is closed. `delay_s` is what every answer takes at least, as over a network."""
    return await start_site(SiteOptions(products, seed, is_plain=True), host, port, delay_s=delay_s)


async def start_site(
    options: SiteOptions | None = None, host: str = "127.0.0.1", port: int = 0, *, delay_s: float = 0.0
) -> RunningShop:
    """The nasty site, for any host name that leads here."""
    delay_s = page_delay_s(delay_s)
    site = Site(options or SiteOptions())
    opened: set[Connection] = set()
    loop = asyncio.get_running_loop()

    def connect() -> Connection:
        return Connection(site.answer, site.memory, site.gate, opened, delay_s)

    server = await loop.create_server(connect, host, port, backlog=1_024)
    shown = f"[{host}]" if ":" in host else host
    return RunningShop(server, f"http://{shown}:{server.sockets[0].getsockname()[1]}", site, opened)


@asynccontextmanager
async def running_site(options: SiteOptions | None = None, *, delay_s: float = 0.0) -> AsyncIterator[RunningShop]:
    running = await start_site(options, delay_s=delay_s)
    try:
        yield running
    finally:
        await running.close()


@contextmanager
def site_in_thread(options: SiteOptions | None = None) -> Iterator[RunningShop]:
    """With a loop of its own, for tests that block. The log may be read from here; `site.set_version` may be called."""
    ready: list[RunningShop] = []
    is_up, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        try:
            async with running_site(options) as running:
                ready.append(running)
                is_up.set()
                await stop.wait()
        finally:
            is_up.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="site", daemon=True)
    thread.start()
    try:
        is_up.wait()
        if not ready:
            raise RuntimeError("the site did not start")
        yield ready[0]
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
