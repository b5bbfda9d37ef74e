"""A site that keeps its own log of when it was asked, holds pages back, and refuses. A process of its own.

python -m tests.processes.logging_site PORT_FILE
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler

from testkit.site.page_gate import PageGate, page_delay_s

PAGES = 30
_TICK_S = 0.01


class LoggingSite:
    """The test's side."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def host(self) -> str:
        return self.url.removeprefix("http://")

    async def arrivals(self) -> list[float]:
        """When it was asked, by the machine's monotonic clock."""
        return [float(at) for at in await self._call("/control/log")]

    async def refuse(self, retry_after_s: float, status: int = 429) -> float:
        """Refuse everything from now on, for so long; the instant."""
        return float(await self._call(f"/control/refuse?seconds={retry_after_s}&status={status}"))

    async def hold(self, pattern: str = "", *, after: int = 0) -> None:
        """Keep pages back that match, beyond the next `after` of them. They are noted when they are asked for."""
        await self._call(f"/control/hold?{urlencode({'pattern': pattern, 'after': after})}")

    async def wait_held(self, count: int = 1) -> None:
        """Until so many requests are held at the same time."""
        await self._call(f"/control/wait-held?count={count}")

    async def release(self, pattern: str = "") -> None:
        await self._call(f"/control/release?{urlencode({'pattern': pattern})}")

    async def worst_lag_s(self) -> float:
        """How late the site itself was, at worst, to notice what came: on a busy machine it has to wait for a core."""
        return float(await self._call("/control/lag"))

    async def _call(self, path: str) -> Any:
        async with aiohttp.request("GET", f"{self.url}{path}") as response:
            return await response.json()


def most_in_a_second(arrivals: list[float]) -> int:
    """In any sliding second."""
    first = most = 0
    for place, at in enumerate(arrivals):
        while at - arrivals[first] > 1.0:
            first += 1
        most = max(most, place - first + 1)
    return most


@asynccontextmanager
async def logging_site(folder: Path) -> AsyncIterator[LoggingSite]:
    port_file = folder / "site.port"
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, str(port_file))
    try:
        while not port_file.exists():
            assert process.returncode is None
            await asyncio.sleep(0.02)
        yield LoggingSite(f"http://127.0.0.1:{port_file.read_text()}")
    finally:
        process.kill()
        await process.wait()


class Lag:
    """The longest time for which the event loop did not come to its turn."""

    def __init__(self) -> None:
        self.worst_s = 0.0

    async def measured(self, _: web.Application) -> AsyncIterator[None]:
        ticking = asyncio.create_task(self._tick())
        yield
        ticking.cancel()

    async def _tick(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_TICK_S)
            self.worst_s = max(self.worst_s, time.monotonic() - before - _TICK_S)


def _app() -> web.Application:
    arrivals: list[float] = []
    refusing = {"until": 0.0, "seconds": 0.0, "status": 429.0}
    gate, lag, delay_s = PageGate(), Lag(), page_delay_s(0.0)

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        now = time.monotonic()
        if request.path.startswith("/control/"):
            return await handler(request)
        arrivals.append(now)
        if (held := gate.admit(request.path)) is not None:
            await gate.wait(held)
        await asyncio.sleep(delay_s)
        if time.monotonic() < refusing["until"]:
            return web.Response(status=int(refusing["status"]), headers={"Retry-After": f"{refusing['seconds']:.0f}"})
        return await handler(request)

    async def log(_: web.Request) -> web.Response:
        return web.json_response(arrivals)

    async def refuse(request: web.Request) -> web.Response:
        refusing.update(seconds=float(request.query["seconds"]), status=float(request.query["status"]))
        refusing["until"] = time.monotonic() + refusing["seconds"]
        return web.json_response(time.monotonic())

    async def hold(request: web.Request) -> web.Response:
        gate.hold(request.query["pattern"], after=int(request.query["after"]))
        return web.json_response(None)

    async def wait_held(request: web.Request) -> web.Response:
        await gate.wait_held(int(request.query["count"]))
        return web.json_response(None)

    async def release(request: web.Request) -> web.Response:
        return web.json_response(gate.release(request.query["pattern"]))

    async def worst_lag(_: web.Request) -> web.Response:
        return web.json_response(lag.worst_s)

    async def page(request: web.Request) -> web.Response:
        crawl = request.match_info["crawl"]
        links = "".join(f'<a href="/{crawl}/{number}">{number}</a> ' for number in range(PAGES))
        return web.Response(text=f"<html><title>{request.path}</title>{links}</html>", content_type="text/html")

    app = web.Application(middlewares=[note])
    app.add_routes([web.get("/control/log", log), web.get("/control/refuse", refuse), web.get("/control/hold", hold)])
    app.add_routes([web.get("/control/wait-held", wait_held), web.get("/control/release", release)])
    app.add_routes([web.get("/control/lag", worst_lag)])
    app.cleanup_ctx.append(lag.measured)
    app.add_routes([web.get("/{crawl}/", page), web.get("/{crawl}/{number}", page)])
    return app


async def _serve(port_file: Path) -> None:
    try:
        # What is measured is when requests come, not when a busy machine has time for the one who measures.
        os.nice(-10)
    except OSError:
        pass
    runner = web.AppRunner(_app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    written = port_file.with_suffix(".new")
    written.write_text(json.dumps(runner.addresses[0][1]))
    written.rename(port_file)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
