"""The demo: a cluster of two nodes, a shop on loopback, a crawl of it, and a worker killed on purpose half-way."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawlfleet.bootstrap.serve import ADMIN_TOKEN, MasterProcess, stopped_by_signals
from crawlfleet.bootstrap.standalone import Agents, agents_of, run_with_agents
from crawlfleet.client import AsyncClient
from crawlfleet.settings.master import LogLevel, MasterSettings
from crawlfleet.shop.catalogue import listing_paths
from crawlfleet.shop.server import RunningShop, start_shop

NODES, SLOTS = 2, 4
PAGE_S = 0.4
"""How long the shop takes to answer, as one on the other side of a network would."""
KILL_AT = 0.3
"""Share of the crawl that is done when a worker is killed."""
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
_ONLINE_S = 30.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Demo:
    """What is running, for whoever tells people about it."""

    url: str
    token_file: Path
    client: AsyncClient
    agents: Agents
    shop: RunningShop


@dataclass(frozen=True, slots=True)
class Told:
    """How far the crawl is, told a few times a second."""

    done: int
    total: int
    nodes_online: int
    killed: int | None
    """The process that was killed, once it was."""


@asynccontextmanager
async def demo_cluster(products: int, log_level: LogLevel = "error") -> AsyncIterator[Demo]:
    """All of it in a temporary folder; nothing is left behind. Ctrl-C and SIGTERM cancel whoever works in it."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-demo-") as name:
        shop = await start_shop("127.0.0.1", 0, products, delay_s=PAGE_S)
        try:
            settings = MasterSettings(
                data_dir=Path(name), port=0, log_level=log_level, allow_hosts=(shop.url.removeprefix("http://"),)
            )
            process = await MasterProcess.open(settings)
            agents = agents_of(process, settings, NODES, SLOTS)
            running = asyncio.create_task(run_with_agents(process, agents), name="demo")
            watcher = asyncio.create_task(_cancel_when(process.stopped(), asyncio.current_task()))
            try:
                with stopped_by_signals(process.stop):
                    async with AsyncClient(process.url, (Path(name) / ADMIN_TOKEN).read_text().strip()) as client:
                        # The shop is ours: nobody minds how often it is asked.
                        await client.put_host(shop.url.removeprefix("http://"), rate=1_000, concurrency=100)
                        yield Demo(process.url, Path(name) / ADMIN_TOKEN, client, agents, shop)
            finally:
                watcher.cancel()
                process.stop()
                await running
        finally:
            await shop.close()


async def _cancel_when(asked: Awaitable[None], worker: asyncio.Task[Any] | None) -> None:
    await asked
    if worker is not None:
        worker.cancel()


async def wait_online(demo: Demo) -> None:
    async with asyncio.timeout(_ONLINE_S):
        async for _ in _ticks():
            if await _nodes_online(demo) >= NODES:
                return


async def crawl(demo: Demo, tell: Callable[[Told], None]) -> list[str]:
    """A task per page of the shop's list; the ids, when all are finished."""
    pages = listing_paths("/products", len(demo.shop.catalogue.products))
    tasks = [_task(f"{demo.shop.url}{path}") for path in pages]
    submitted = await demo.client.submit_batch(tasks)
    ids = [task.id for task in submitted]
    killed: int | None = None
    async for _ in _ticks():
        stats = (await demo.client.stats(project_id="demo")).by_status
        done = sum(stats.get(status, 0) for status in ("completed", "failed", "timeout", "cancelled"))
        if killed is None and done >= KILL_AT * len(ids):
            killed = demo.agents.pids[0]
            os.kill(killed, signal.SIGKILL)
        tell(Told(done, len(ids), await _nodes_online(demo), killed))
        if done >= len(ids):
            break
    return ids


async def products_of(demo: Demo, ids: Sequence[str]) -> list[dict[str, Any]]:
    return [item async for task in _each(ids) async for item in demo.client.results(task)]


async def _ticks() -> AsyncIterator[None]:
    while True:
        yield
        await asyncio.sleep(_POLL_S)


async def _each(ids: Sequence[str]) -> AsyncIterator[str]:
    for task in ids:
        yield task


async def _nodes_online(demo: Demo) -> int:
    return sum(node.status == "online" for node in await demo.client.nodes())


def _task(url: str) -> dict[str, Any]:
    return {
        "task_type": "web_crawl",
        "project_id": "demo",
        "name": url.rpartition("/")[2],
        "parameters": {"url": url, "depth": 0, "selectors": SELECTORS},
    }
