"""The running demo shop: as a part of a program, or as the process of `python -m crawlfleet.demo_shop`."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable

from crawlfleet.demo_shop.catalogue import Catalogue, Product, make_catalogue
from crawlfleet.demo_shop.connection import Connection, ShopConnection
from crawlfleet.demo_shop.site import DemoSite


class RunningServer:
    """A listening server, with its open connections."""

    def __init__(self, server: asyncio.Server, url: str, opened: set[Connection]) -> None:
        self._server = server
        self._opened = opened
        self.url = url
        """URL of the server, without a slash at the end."""

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    async def close(self) -> None:
        """Stop at once, without waiting for responses that are under way: a test site has some that never end."""
        self._server.close()
        for connection in list(self._opened):
            connection.transport.abort()
        await asyncio.gather(*(connection.ended.wait() for connection in list(self._opened)))
        await self._server.wait_closed()


class RunningShop(RunningServer):
    """The running demo shop, with its catalogue."""

    def __init__(
        self, server: asyncio.Server, url: str, opened: set[Connection], catalogue: Catalogue[Product]
    ) -> None:
        super().__init__(server, url, opened)
        self.catalogue = catalogue


async def start_shop(
    host: str = "127.0.0.1", port: int = 0, products: int = 200, *, seed: int = 1, delay_s: float = 0.0
) -> RunningShop:
    """Serve the demo shop until it is closed. `delay_s` is the least time of every response, as over a network."""
    catalogue, opened = make_catalogue(products, seed), set[Connection]()
    site = DemoSite(catalogue)
    server, url = await start_listening(lambda: ShopConnection(site.answer_request, opened, delay_s), host, port)
    return RunningShop(server, url, opened, catalogue)


async def start_listening(connect: Callable[[], Connection], host: str, port: int) -> tuple[asyncio.Server, str]:
    """Start to listen; returns the server, and its URL without a slash at the end."""
    server = await asyncio.get_running_loop().create_server(connect, host, port, backlog=1_024)
    shown_host = f"[{host}]" if ":" in host else host
    return server, f"http://{shown_host}:{server.sockets[0].getsockname()[1]}"


async def run_server(start: Awaitable[RunningServer]) -> None:
    """Run a server as a process: prints its address, and closes it at SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signal_number, stop.set)
    running = await start
    try:
        sys.stdout.write(f"{running.url}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await running.close()
