"""The demo runs a cluster, a shop on loopback and one crawl of the shop over all nodes, and kills an agent on purpose
half-way."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawlfleet.bootstrap.serve import ADMIN_TOKEN, MasterProcess, stopped_by_signals
from crawlfleet.bootstrap.standalone import Agents, local_agents, run_with_agents
from crawlfleet.client import AsyncClient
from crawlfleet.client._generated.models import GroupView
from crawlfleet.demo_shop.server import RunningShop, start_shop
from crawlfleet.settings.master import MasterSettings

NODES, SLOTS = 3, 2
PAGE_S = 0.2
"""Response time of the shop, in seconds, as of a shop on the other side of a network."""
KILL_AT = 0.3
"""Share of the crawl that is done when an agent is killed."""
EXTRACT = {
    "products": {
        "container": "div.product",
        "fields": {
            "title": "h2.title",
            "price": {"selector": "span.price", "type": "price", "currency": "USD"},
            # Only a product's own page has this field, so what lists show of a product is left out.
            "stock": {"selector": "p.stock", "regex": r"(\d+)", "type": "integer", "required": True},
        },
    }
}
DEPTH = 100
"""Depth limit of the crawl: as far as links lead, and so high that nodes do not wait for each other."""
_ONLINE_S = 30.0
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Demo:
    """The parts of the running demo, for the code that shows it to people."""

    url: str
    token_file: Path
    client: AsyncClient
    agents: Agents
    shop: RunningShop


@dataclass(frozen=True, slots=True)
class CrawlProgress:
    """Progress of the crawl, reported a few times a second."""

    group: GroupView
    nodes_online: int
    killed: int | None
    """Process id of the agent that was killed; None before that."""


@asynccontextmanager
async def demo_cluster(products: int, log_level: str = "error") -> AsyncIterator[Demo]:
    """Run the demo in a temporary folder, and leave nothing behind. Ctrl-C and SIGTERM cancel the task that uses it."""
    with tempfile.TemporaryDirectory(prefix="crawlfleet-demo-") as name:
        shop = await start_shop("127.0.0.1", 0, products, delay_s=PAGE_S)
        try:
            settings = MasterSettings(
                data_dir=Path(name), port=0, log_level=log_level, allow_hosts=(shop.url.removeprefix("http://"),)
            )
            process = await MasterProcess.open(settings)
            agents = local_agents(process, settings, NODES, SLOTS)
            running = asyncio.create_task(run_with_agents(process, agents), name="demo")
            watcher = asyncio.create_task(_cancel_when(process.wait_stopped(), asyncio.current_task()))
            try:
                with stopped_by_signals(process.stop):
                    async with AsyncClient(process.url, (Path(name) / ADMIN_TOKEN).read_text().strip()) as client:
                        # The shop belongs to the demo: there is no reason to limit how often it is requested.
                        await client.put_host(shop.url.removeprefix("http://"), rate=1_000, concurrency=100)
                        yield Demo(process.url, Path(name) / ADMIN_TOKEN, client, agents, shop)
            finally:
                watcher.cancel()
                process.stop()
                await running
        finally:
            await shop.close()


async def _cancel_when(stop: Awaitable[None], worker: asyncio.Task[Any] | None) -> None:
    await stop
    if worker is not None:
        worker.cancel()


async def wait_online(demo: Demo) -> None:
    async with asyncio.timeout(_ONLINE_S):
        async for _ in _poll_ticks():
            if await _nodes_online(demo) >= NODES:
                return


async def crawl_shop(demo: Demo, on_progress: Callable[[CrawlProgress], None]) -> GroupView:
    """Crawl the whole shop over all nodes, and return the group when the crawl is over."""
    expected = len(demo.shop.catalogue.page_paths())
    group = await demo.client.crawl(
        [f"{demo.shop.url}/"],
        {"depth": DEPTH, "max_pages": 2 * expected, "extract": EXTRACT},
        members=NODES,
        project_id="demo",
        name="the shop",
    )
    killed: int | None = None
    async for _ in _poll_ticks():
        group = await demo.client.group(group.id)
        if killed is None and group.crawl is not None and group.crawl.pages >= KILL_AT * expected:
            killed = demo.agents.pids[0]
            os.kill(killed, signal.SIGKILL)
        on_progress(CrawlProgress(group, await _nodes_online(demo), killed))
        if group.is_finished:
            break
    return group


async def list_products(demo: Demo, group_id: str) -> list[dict[str, Any]]:
    return [item async for item in demo.client.group_items(group_id)]


async def _poll_ticks() -> AsyncIterator[None]:
    while True:
        yield
        await asyncio.sleep(_POLL_S)


async def _nodes_online(demo: Demo) -> int:
    return sum(node.status == "online" for node in await demo.client.nodes())
