"""The running test site: in the loop of a test, in a thread of one, or as the process of `python -m testkit.site`."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from crawlfleet.demo_shop.connection import Connection
from crawlfleet.demo_shop.server import RunningServer, start_listening
from testkit.site.connection import SiteConnection
from testkit.site.page_gate import PageGate, page_delay_s
from testkit.site.request_log import LoggedRequest, RequestLog
from testkit.site.site import Site, SiteOptions
from testkit.site.versioned_catalogue import VersionedCatalogue


class RunningSite(RunningServer):
    """The running test site, with its log and gate."""

    def __init__(self, server: asyncio.Server, url: str, opened: set[Connection], site: Site) -> None:
        super().__init__(server, url, opened)
        self.site = site

    @property
    def catalogue(self) -> VersionedCatalogue:
        return self.site.shop.catalogue

    @property
    def log(self) -> RequestLog:
        return self.site.log

    @property
    def requests(self) -> deque[LoggedRequest]:
        """The most recent requests, oldest first."""
        return self.site.log.requests

    @property
    def gate(self) -> PageGate:
        return self.site.gate

    @property
    def open_connections(self) -> frozenset[Connection]:
        return frozenset(self._opened)

    def asked_paths(self) -> list[str]:
        return self.site.log.paths()


async def start_shop(
    host: str = "127.0.0.1", port: int = 0, products: int = 200, *, seed: int = 1, delay_s: float = 0.0
) -> RunningSite:
    """Start the test site with the pages of the demo shop. `delay_s` is the least time of every response."""
    return await start_site(SiteOptions(products, seed, is_plain=True), host, port, delay_s=delay_s)


async def start_site(
    options: SiteOptions | None = None, host: str = "127.0.0.1", port: int = 0, *, delay_s: float = 0.0
) -> RunningSite:
    """Start the nasty site, for any host name that leads here. It serves until it is closed."""
    delay_s = page_delay_s(delay_s)
    site, opened = Site(options or SiteOptions()), set[Connection]()
    server, url = await start_listening(
        lambda: SiteConnection(site.answer, site.memory, site.gate, opened, delay_s), host, port
    )
    return RunningSite(server, url, opened, site)


@asynccontextmanager
async def running_site(options: SiteOptions | None = None, *, delay_s: float = 0.0) -> AsyncIterator[RunningSite]:
    running = await start_site(options, delay_s=delay_s)
    try:
        yield running
    finally:
        await running.close()


@contextmanager
def site_in_thread(options: SiteOptions | None = None) -> Iterator[RunningSite]:
    """Run the site with a loop of its own, for tests that block.

    The log may be read from the calling thread; `site.set_version` may be called.
    """
    ready: list[RunningSite] = []
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
