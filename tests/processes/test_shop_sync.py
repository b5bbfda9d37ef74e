"""A shop brought up to date by real nodes: new, changed and gone are right, also when a worker is killed half way."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crawlfleet.client._generated.models import TaskView
from testkit.patience import PATIENCE_S
from testkit.site import SiteProcess, site_process
from tests.processes.fleet import Fleet, fleet

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PRODUCTS = 200
SELECTORS = {"product": "div.product", "title": "h2.title", "price": "span.price"}
SYNC = {"selectors": SELECTORS, "product_pages": ["/products/\\d+$"], "max_pages": 5_000}
SAYS_STOCK = ("json-ld", "graph", "microdata", "stale", "offers")

Shown = dict[str, tuple[Any, ...]]
"""By path, what a page shows of its product."""


async def test_two_syncs_with_a_worker_killed_in_the_second(tmp_path: Path) -> None:
    async with site_process("--products", str(PRODUCTS)) as site, fleet(tmp_path) as running:
        await running.start("--allow-host", "127.0.0.1", workers=2, slots=2)
        await running.client.put_config({"host_rate": 1_000, "host_concurrency": 64})
        first = await shown(site)
        result = await sync(running, site)
        assert {name: result[name] for name in ("new", "changed", "gone", "unchanged", "unsure")} == {
            "new": len(first),
            "changed": 0,
            "gone": 0,
            "unchanged": 0,
            "unsure": 0,
        }
        assert await kept(running) == set(first)

        await site.set(version=3)
        second = await shown(site)
        result = await sync(running, site, is_killed=True)
        changed = {path for path in first.keys() & second.keys() if first[path] != second[path]}
        expected = {"new": second.keys() - first.keys(), "changed": changed, "gone": first.keys() - second.keys()}
        assert all(expected.values()), "the shop has not changed enough"
        assert {name: result[name] for name in expected} == {name: len(paths) for name, paths in expected.items()}
        assert (result["unchanged"], result["unsure"], result["complete"]) == (
            len(first.keys() & second.keys()) - len(changed),
            0,
            True,
        )
        assert await kept(running) == set(second)
        assert await kept(running, gone=True) == expected["gone"]
        await by_batch(running, site, sorted(second), sorted(expected["gone"]))
        await by_command(running)
        running.note([task.id async for task in running.client.list()])
        assert await running.verdict() == []


async def sync(running: Fleet, site: SiteProcess, *, is_killed: bool = False) -> Any:
    await site.clear()
    if is_killed:
        await site.hold(r"^/products/\d+$", after=int(PRODUCTS * 0.75))
    task = await running.client.submit(
        "full_sync", {"url": f"{site.url}/", **SYNC, "concurrency": 8 if is_killed else 32}
    )
    crawl = await kill_half_way(running, site) if is_killed else None
    (ended,) = await running.client.wait([task.id], timeout=PATIENCE_S)
    assert ended.status == "completed", (ended, running.logs())
    if crawl is not None:
        assert len(await running.client.executions(crawl)) == 2
    result = result_of(ended)
    lines = b"".join([data async for data in running.client.export(task.id)]).splitlines()
    changes = Counter(json.loads(line)["change"] for line in lines)
    assert changes == Counter({name: count for name in ("new", "changed", "gone") if (count := result[name])})
    return result


def result_of(task: TaskView) -> Any:
    assert task.result is not None, task
    return task.result.data


async def kill_half_way(running: Fleet, site: SiteProcess) -> str:
    """The worker that crawls, when it has written some products and not all; the crawl's task."""
    await site.wait_held()
    (crawl,) = [task async for task in running.client.list(type="shop_crawl", status="processing")]
    names = {node.id: node.name for node in await running.client.nodes()}
    (worker,) = [one for one in running.workers if one.name == names[crawl.assigned_node or ""]]
    await worker.kill()
    await site.release()
    return crawl.id


async def shown(site: SiteProcess) -> Shown:
    return {
        item["path"]: (
            item["title"],
            item["price"],
            item["currency"],
            item["in_stock"] if item["markup"] in SAYS_STOCK else None,
        )
        for item in await site.items()
    }


async def kept(running: Fleet, *, gone: bool = False) -> set[str]:
    found = [product async for product in running.client.products(gone=gone)]
    return {f"/{product.url.split('/', 3)[3]}" for product in found}


async def by_batch(running: Fleet, site: SiteProcess, there: list[str], gone: list[str]) -> None:
    urls = [f"{site.url}{path}" for path in (*there[:6], *gone[:2])]
    parameters = {"urls": urls, "batch_size": 3, "selectors": SELECTORS}
    task = await running.client.submit("batch_products", parameters, priority=1)
    (ended,) = await running.client.wait([task.id], timeout=PATIENCE_S)
    result = result_of(ended)
    assert (result["total"], result["success"], result["failed"]) == (8, 6, 2)
    assert [detail["url"] for detail in result["details"]] == urls
    assert all("answers 4" in detail["error"] for detail in result["details"][6:])
    children = [one async for one in running.client.list(type="single_product")]
    assert {one.priority for one in children} == {1}


async def by_command(running: Fleet) -> None:
    env = {"CRAWLFLEET_URL": running.client.url, "CRAWLFLEET_TOKEN": running.admin}
    code, said = await running.run("products", "product", "list", "--gone", "--json", env=env)
    assert code == 0, said
    assert all(one["gone_at"] for one in json.loads(said)["products"])
    target = running.folder / "products.csv"
    code, said = await running.run("export", "product", "export", "-o", str(target), "--not-gone", env=env)
    assert code == 0, said
    assert len(target.read_text().splitlines()) > PRODUCTS / 2
