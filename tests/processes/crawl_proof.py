"""What a crawl over real nodes is held against: the site's own list, its items, and its log."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import psutil

from crawlfleet.client._generated.models import GroupView
from crawlfleet.execution.crawl.frontier.normalise import Normaliser
from testkit.site import SiteProcess, site_process
from tests.processes.fleet import Fleet, Process, fleet

PRODUCTS = int(os.environ.get("PROVE_PRODUCTS", "400"))
"""`make prove-crawl` sets it to 5,000."""
WITHIN_S = 60 + PRODUCTS * 0.1
FRAME = "/map/frame"
"""Not in the site's list, for which a frame is no link. For a crawl it is one."""
CRAWL: dict[str, Any] = {
    "depth": 90,
    "max_pages": 100_000,
    "concurrency": 16,
    "page": ["metadata"],
    "extract": {
        "products": {
            "container": "main div.product",
            "fields": {
                "sku": {"attribute": "data-id"},
                "title": "h2.title",
                "price": {"selector": "span.price", "type": "price"},
            },
        }
    },
}
HELD_URLS = 2 * 100
"""What a member that is lost may have been at: two chunks."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Figures:
    """The most memory that executor processes had, looked at while they run."""

    def __init__(self) -> None:
        self.peak_bytes = 0

    def look(self, workers: list[Process]) -> None:
        for worker in workers:
            for process in worker.tree()[1:]:
                try:
                    self.peak_bytes = max(self.peak_bytes, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue


@dataclass(frozen=True, slots=True)
class Crawled:
    lines: list[bytes]
    """The items as they are exported, in an order that does not depend on who found them."""
    group: GroupView
    asked: Counter[str]
    """How often the site was asked for each path."""

    @property
    def pages(self) -> Counter[str]:
        return Counter(item["url"] for item in map(_decode, self.lines) if "_name" not in item)


class Proof:
    def __init__(self, running: Fleet, site: SiteProcess) -> None:
        self.running = running
        self.site = site
        self._listed: set[str] = set()

    async def begin(self, members: int, **parameters: Any) -> GroupView:
        await self.site.clear()
        return await self.running.client.crawl([f"{self.site.url}/"], CRAWL | parameters, members=members)

    async def begin_part(self, part: float, members: int) -> GroupView:
        """Begin, and return when so much of the site was answered: the rest is held until `site.release()`.

        What is held was found on pages that were reported: by then the crawl is neither at its start nor at its end.
        """
        await self.site.hold(after=max(2, int(part * len(await self.listed()))))
        group = await self.begin(members)
        await self.site.wait_held(members, within_s=WITHIN_S)
        seen = (await self.running.client.group(group.id)).crawl
        assert seen is not None and seen.pages > 0 and seen.finished_at is None
        return group

    async def finish(self, what: str, group: GroupView) -> Crawled:
        began, figures = time.monotonic(), Figures()
        workers = [worker for worker in self.running.workers if worker.child.returncode is None]
        ended = await self.running.client.wait_group(group.id, WITHIN_S, on_look=lambda _: figures.look(workers))
        assert ended.crawl is not None
        assert (ended.is_complete, ended.crawl.queued, ended.crawl.stopped_by) == (True, 0, None), ended
        lines = b"".join([data async for data in self.running.client.export_group(group.id)]).splitlines()
        log = await self.site.log()
        assert log["total"] == len(log["asked"])
        crawled = Crawled(sorted(lines), ended, Counter(one["path"] for one in log["asked"]))
        self._say(what, crawled, figures, time.monotonic() - began)
        return crawled

    def _say(self, what: str, crawled: Crawled, figures: Figures, waited_s: float) -> None:
        state = crawled.group.crawl
        assert state is not None and state.started_at is not None and state.finished_at is not None
        took_s = (state.finished_at - state.started_at).total_seconds()
        print(  # noqa: T201 - shown by `make prove-crawl`
            f"{what}: {state.pages:,} pages in {took_s:.1f} s ({state.pages / took_s:,.0f}/s), {state.items:,} items, "
            f"{state.failed} failed, {crawled.asked.total():,} requests, "
            f"{sum(count - 1 for count in pages_asked(crawled).values()):,} of them again, "
            f"largest process {figures.peak_bytes >> 20} MB, waited {waited_s:.1f} s"
        )

    async def listed(self) -> set[str]:
        """The site's list, as a crawl calls its pages: tracking parameters are no part of a page's name."""
        if not self._listed:
            normalise, url = Normaliser(), self.site.url
            paths = await self.site.pages(nofollow=False, canonical=False)
            self._listed = {normalise(url + path) for path in paths} | {url + FRAME}
        return self._listed

    async def assert_whole(self, crawled: Crawled, again: int = 0) -> None:
        """Every page, each once in the results; the site was asked for no more than `again` of them twice."""
        pages = crawled.pages
        assert pages.keys() == await self.listed()
        assert set(pages.values()) == {1}
        state = crawled.group.crawl
        assert state is not None
        # What fails is what the site says is not there, and what robots.txt does not allow.
        assert (state.pages, state.items) == (len(pages), len(crawled.lines))
        asked = pages_asked(crawled)
        assert not asked.keys() & await self._forbidden()
        assert sum(count - 1 for count in asked.values()) <= again, asked.most_common(5)

    async def _forbidden(self) -> set[str]:
        """What robots.txt does not allow."""
        of_all = {"nofollow": False, "canonical": False, "files": True}
        return set(await self.site.pages(robots=False, **of_all)) - set(await self.site.pages(**of_all))

    async def assert_items(self, crawled: Crawled) -> None:
        """Each product is on its own page what the site says it is."""
        told = {
            f"{self.site.url}{item['path']}": (item["sku"], item["title"], Decimal(item["price"]))
            for item in await self.site.items()
        }
        got = {
            item["_url"]: (item["sku"], item["title"], Decimal(str(item["price"]["amount"])))
            for item in map(_decode, crawled.lines)
            if item.get("_name") == "products" and item["_url"] in told
        }
        assert got == told


def pages_asked(crawled: Crawled) -> Counter[str]:
    """Without robots.txt, which each process reads for itself."""
    return Counter({path: count for path, count in crawled.asked.items() if path != "/robots.txt"})


@asynccontextmanager
async def proving(folder: Path, *master: str, workers: int, products: int = PRODUCTS) -> AsyncIterator[Proof]:
    """A site, a master with these options and workers of one slot each, with a budget that does not slow them down."""
    async with site_process("--products", str(products), "--delay", "0.01") as site, fleet(folder) as running:
        await running.start_master(*master)
        for number in range(workers):
            await running.start_worker(f"worker-{number}", "--allow-host", "127.0.0.1", slots=1)
        await running.until_online(workers)
        await running.client.put_config({"host_rate": 10_000, "host_concurrency": 64})
        yield Proof(running, site)
        running.note([task.id async for task in running.client.list()])
        assert await running.verdict() == []


def shared_processes(worker: Process) -> list[psutil.Process]:
    """The executor processes of a worker that are not for one execution alone."""
    return [one for one in worker.tree() if _is_executor(one, "shared")]


def is_at(site: SiteProcess, worker: Process) -> bool:
    """Whether a shared process of the worker is connected to the site, so that its death costs pages."""
    port = int(site.url.rpartition(":")[2])
    return any(_has_connection(one, port) for one in shared_processes(worker))


def _has_connection(process: psutil.Process, port: int) -> bool:
    try:
        return any(getattr(one.raddr, "port", None) == port for one in process.net_connections("tcp"))
    except psutil.NoSuchProcess:
        return False


def alone_processes(worker: Process) -> list[psutil.Process]:
    return [one for one in worker.tree() if _is_executor(one, "alone")]


async def kill_until_lost(running: Fleet, worker: Process, task: str, losses: int) -> None:
    """Kill the shared processes of a worker, one of which runs the task, until it was lost so many times.

    A process that dies before it was given its task costs the task nothing, and from outside that moment cannot be
    seen: a kill in vain is repeated after a longer pause, so that a slow machine gets as far as giving it.
    """
    killed_at, pause_s = 0.0, 1.0

    async def is_lost() -> bool:
        nonlocal killed_at, pause_s
        view = await running.client.get(task)
        if view.losses < losses and view.status == "processing" and time.monotonic() - killed_at > pause_s:
            for process in shared_processes(worker):
                process.kill()
            killed_at, pause_s = time.monotonic(), 2 * pause_s
        return view.losses >= losses

    await running.until(is_lost, "the death of its process is not known")


def _is_executor(process: psutil.Process, kind: str) -> bool:
    try:
        argv = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return "crawlfleet.execution.executors.inside.process_entry" in argv and kind in argv


def freeze(worker: Process, number: signal.Signals) -> None:
    """The agent and all its processes, as if the machine slept."""
    for process in worker.tree():
        process.send_signal(number)


async def restart_master(running: Fleet, *options: str) -> None:
    """Killed, and started again where it was."""
    port = int(running.client.url.rpartition(":")[2])
    await running.master.kill()
    await running.client.close()
    await running.start_master(*options, port=port)
