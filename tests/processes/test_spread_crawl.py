"""One crawl over real nodes: the same items on one node, on four, and on four of which one is killed and one frozen."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.shop.server import RunningShop, start_shop
from tests.processes.fleet import Fleet, Process, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PRODUCTS = 400
CRAWL = {"depth": 50, "max_pages": 5_000, "concurrency": 8}


async def test_the_same_items_on_one_node_on_four_and_when_two_are_lost(tmp_path: Path) -> None:
    shop = await start_shop(products=PRODUCTS, delay_s=0.03)
    try:
        async with fleet(tmp_path) as running:
            await running.start("--allow-host", shop.host.partition(":")[0], workers=4, slots=1)
            await running.client.put_config({"host_rate": 1_000, "host_concurrency": 64})
            alone = await crawled(running, shop, members=1)
            four = await crawled(running, shop, members=4)
            assert four == alone
            urls = [item["_url"] for item in alone]
            assert len(urls) == len(set(urls)) > PRODUCTS
            await by_command(running, shop)
            assert await with_two_lost(running, shop) == alone
            running.note([task.id async for task in running.client.list()])
            assert await running.verdict() == []
    finally:
        await shop.close()


async def crawled(running: Fleet, shop: RunningShop, members: int) -> list[Any]:
    group = await running.client.crawl([f"{shop.url}/"], CRAWL, members=members)
    ended = await running.client.wait_group(group.id, 90)
    assert ended.crawl is not None
    assert (ended.is_complete, ended.progress.completed, ended.crawl.queued) == (True, members, 0)
    result = await running.client.crawl_result(group.id)
    assert result.success
    assert result.metrics.pages_crawled == ended.crawl.pages > PRODUCTS
    workers = {task.assigned_node async for task in running.client.list(group=group.id)}
    assert len(workers) == members
    return await items(running, group.id)


async def by_command(running: Fleet, shop: RunningShop) -> None:
    env = {"CRAWLFLEET_URL": running.client.url, "CRAWLFLEET_TOKEN": running.admin}
    argv = ("crawl", f"{shop.url}/", "--members", "2", "--depth", "2", "--max-pages", "7", "--wait")
    code, said = await running.run("crawl", *argv, env=env)
    assert code == 0, said
    assert "7 pages, 7 items, 0 failed" in said


async def with_two_lost(running: Fleet, shop: RunningShop) -> list[Any]:
    group = await running.client.crawl([f"{shop.url}/"], CRAWL, members=4)

    async def is_half_way() -> bool:
        seen = await running.client.group(group.id)
        assert seen.crawl is not None
        return seen.crawl.pages > PRODUCTS / 4

    await running.until(is_half_way, "the crawl does not get going")
    killed, frozen, *_ = running.workers
    await killed.kill()
    freeze(frozen, signal.SIGSTOP)
    half = await running.client.group(group.id)
    assert half.crawl is not None
    assert half.crawl.finished_at is None

    async def is_over() -> bool:
        return (await running.client.group(group.id)).is_complete

    await running.until(is_over, "the others do not go on")
    # It wakes up and speaks of what is not its own any more.
    freeze(frozen, signal.SIGCONT)
    ended = await running.client.wait_group(group.id, 90)
    assert ended.is_complete
    return await items(running, group.id)


def freeze(worker: Process, number: signal.Signals) -> None:
    """The agent and all its processes, as if the machine slept."""
    for process in worker.tree():
        process.send_signal(number)


async def items(running: Fleet, group: str) -> list[Any]:
    lines = b"".join([data async for data in running.client.export_group(group)]).splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda item: json.dumps(item, sort_keys=True))
