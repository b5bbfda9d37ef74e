"""Crawls of addresses that are nobody's business: somebody listens there, and is not asked for anything.

With the hosts allowed the same crawls do arrive, so the listener would have noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.processes.fleet import Fleet, fleet
from tests.processes.networks import Listener, Names, own_network

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SITE = "93.184.216.34"
"""Of the open internet, as far as an address can tell."""
METADATA = "169.254.169.254"
PRIVATE = ("10.0.0.1", "172.16.0.1", "192.168.7.7", "100.64.0.1")
CARRIED = (f"{SITE}/32", f"{METADATA}/32", *(f"{one}/32" for one in PRIVATE))
SPELLINGS = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]")
FOREIGN = (METADATA, *PRIVATE, "2852039166", "[::ffff:10.0.0.1]")
NAMES = {
    "inside.test": [["10.0.0.1"]],
    # The first answer is for whoever checks, the second for whoever connects.
    "rebinds.test": [[SITE], [METADATA]],
    "mixed.test": [[METADATA, SITE, "10.0.0.1"]],
}
OPEN = "open"
"""The type of a node whose settings allow what the others' do not."""


@pytest.fixture
def is_own_network() -> Iterator[bool]:
    with own_network(CARRIED) as is_own:
        yield is_own


def crawl(url: str, **fields: Any) -> dict[str, Any]:
    return {"task_type": "web_crawl", "parameters": {"url": url}, "retry": {"max_retries": 0}, **fields}


async def test_nothing_behind_a_forbidden_address_is_reached(tmp_path: Path, is_own_network: bool) -> None:
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(Listener().serving(80 if is_own_network else 0))
        names = await stack.enter_async_context(Names(NAMES).serving()) if is_own_network else None
        running = await stack.enter_async_context(fleet(tmp_path))
        # Without a network of our own there is but the loopback: one of its addresses is the open site.
        site, private, hosts = (
            (SITE, "10.0.0.1", [*SPELLINGS, *FOREIGN]) if names else ("127.0.0.9", "127.0.0.1", list(SPELLINGS))
        )
        within = names.within(tmp_path) if names else []
        await running.start_master()
        await running.start_worker("closed", *([] if names else ["--allow-host", site]), within=within)
        allowed = [option for host in (private, METADATA, "rebinds.test") for option in ("--allow-host", host)]
        await running.start_worker("open", "--node-type", OPEN, *allowed, within=within)
        await running.until_online(2)

        forbidden = [f"http://{host}:{listener.port}/" for host in hosts]
        redirects = [f"http://{site}:{listener.port}/?to={url}" for url in forbidden]
        await _assert_refused(running, [*forbidden, *redirects])
        assert set(listener.hits) == {site}, "only the site that redirects was asked"
        if names is not None:
            await _assert_names_are_no_way_around(running, listener, names)

        listener.hits.clear()
        open_urls = [f"http://{private}:{listener.port}/", f"http://{private}:{listener.port}/?to=/elsewhere"]
        if names is not None:
            open_urls += [f"http://{METADATA}/", "http://rebinds.test/"]
        done = await running.submit([crawl(url, node_type=OPEN) for url in open_urls])
        await running.until_status(done, "completed")
        assert set(listener.hits) == ({private, METADATA} if names else {private}), "allowed, they are reached"
        assert await running.verdict() == []


async def _assert_refused(running: Fleet, urls: list[str]) -> None:
    # The closed node is of the usual type, which is asked for so that the open one does not help out.
    tasks = await running.submit([crawl(url, node_type="standard") for url in urls])
    await running.until_status(tasks, "failed")
    for task, url in zip(tasks, urls, strict=True):
        error = (await running.client.get(task)).error
        assert error is not None and (error.class_, error.is_permanent) == ("policy", True), f"{url}: {error}"


async def _assert_names_are_no_way_around(running: Fleet, listener: Listener, names: Names) -> None:
    await _assert_refused(running, ["http://inside.test/"])
    first = await running.submit([crawl("http://rebinds.test/", node_type="standard")])
    await running.until_status(first, "completed")
    await _assert_refused(running, ["http://rebinds.test/"])
    assert names.asked["rebinds.test"] > 1, "it was given the other answer"
    mixed = await running.submit([crawl("http://mixed.test/", node_type="standard")])
    await running.until_status(mixed, "completed")
    assert set(listener.hits) == {SITE}


async def test_what_a_master_allows_reaches_a_worker_and_is_taken_back(tmp_path: Path) -> None:
    async with Listener().serving(0) as listener, fleet(tmp_path) as running:
        url = f"http://127.0.0.1:{listener.port}/"
        await running.start(workers=1)
        await _assert_refused(running, [url])
        assert not listener.hits

        port = int(running.client.url.rpartition(":")[2])
        for is_allowed in (True, False):
            await running.master.stop()
            await running.client.close()
            await running.start_master(*(["--allow-host", "127.0.0.1"] if is_allowed else []), port=port)
            if is_allowed:
                (task,) = await running.submit([crawl(url)])
                await running.until_status([task], "completed")
                assert set(listener.hits) == {"127.0.0.1"}
            else:
                await _assert_refused(running, [url])
        assert await running.verdict() == []
