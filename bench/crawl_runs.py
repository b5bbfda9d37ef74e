"""Runs of the crawl benchmark: one crawler each over the site, checked and measured the same way."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import msgspec
import psutil

from bench.crawl_site import Asked, product
from bench.installation import Installation, installation

AT_ONCE = 32
_EXECUTOR = "crawlfleet.execution.executors.inside.process_entry"
_FIELDS = {name: f".{name}" for name in ("title", "price", "sku")}
_POLL_S = 0.5


class Run(NamedTuple):
    pages_s: float
    cpu_s: float
    """Of the crawler's process, per 1,000 pages."""
    memory_mb: float
    """Its peak."""


class Site:
    def __init__(self, url: str, pages: int) -> None:
        self.url = url
        self.pages = pages

    @property
    def start(self) -> str:
        return f"{self.url}/p/0"

    def begin(self) -> None:
        urlopen(f"{self.url}/-/begin").read()

    def requests(self) -> int:
        """For pages, so far."""
        return self._asked().requests

    def asked(self, times: int = 1) -> Asked:
        """Raises when some page was not asked for as often as that."""
        asked = self._asked()
        if (asked.requests, asked.pages, asked.most_often) != (times * self.pages, self.pages, times):
            raise RuntimeError(f"not every page was asked for {times}x: {asked}")
        return asked

    def _asked(self) -> Asked:
        return msgspec.json.decode(urlopen(f"{self.url}/-/asked").read(), type=Asked)

    def check(self, lines: bytes) -> None:
        """Raises unless every page's item is there, once."""
        found = sorted(_item(msgspec.json.decode(line)) for line in lines.splitlines())
        expected = sorted((f"{self.url}/p/{number}", *product(number).values()) for number in range(self.pages))
        if found != expected:
            raise RuntimeError(f"{len(found)} items, not those of the {self.pages} pages")


def _item(item: dict[str, Any]) -> tuple[str, ...]:
    return (item.get("_url") or item["url"], item["title"], item["price"], item["sku"])


@contextmanager
def served(pages: int, core: int) -> Iterator[Site]:
    argv = [sys.executable, "-m", "bench.crawl_site", str(pages)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        psutil.Process(process.pid).cpu_affinity([core])
        yield Site(process.stdout.readline().strip(), pages)
    finally:
        process.terminate()
        process.wait()


def run_peer(site: Site, folder: Path, python: str, module: str, *more: str, core: int) -> Run:
    """One that writes its items and says what it took."""
    (run,) = run_peers(site, folder, python, module, *more, cores=[core])
    return run


def run_peers(site: Site, folder: Path, python: str, module: str, *more: str, cores: Sequence[int]) -> list[Run]:
    """The same one several times at once, each over the whole site."""
    site.begin()
    files = [folder / f"items-{number}.jsonl" for number in range(len(cores))]
    processes = [
        subprocess.Popen([python, "-m", module, site.start, str(file), *more], stdout=subprocess.PIPE) for file in files
    ]
    for process, core in zip(processes, cores, strict=True):
        psutil.Process(process.pid).cpu_affinity([core])
    said = [msgspec.json.decode(process.communicate()[0].splitlines()[-1]) for process in processes]
    asked = site.asked(len(cores))
    if "fetch" not in more:
        for file in files:
            site.check(file.read_bytes())
    took_s = asked.last_at - asked.first_at
    return [Run(site.pages / took_s, one["cpu_s"] / site.pages * 1_000, one["memory_mb"]) for one in said]


def wrk_rate(site: Site, core: int) -> float | None:
    """What the server gives out, one page over and over; None without wrk."""
    if shutil.which("wrk") is None:
        return None
    argv = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{AT_ONCE}", "-d3", site.start]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", said)[1])  # type: ignore[index]


class Ours:
    """An installation that crawls: a master, an agent, and its executor processes on cores of their own."""

    def __init__(self, running: Installation) -> None:
        self._running = running
        self._executors: list[psutil.Process] = []
        self._others: list[psutil.Process] = []
        self.others_cpu_s: list[float] = []
        """Of master and agent, per 1,000 pages, run by run."""

    async def prepare(self, site: Site, cores: Sequence[int]) -> None:
        """The host's budget is raised out of the way; every executor process has crawled a page before."""
        host = site.url.removeprefix("http://")
        await self._running.put(f"hosts/{host}", {"rate": 10_000, "concurrency": 10_000})
        tasks = [await self._submit(site, depth=0, max_pages=1) for _ in cores]
        for task in tasks:
            await self._ended(task)
        master = psutil.Process(self._running.processes[0].pid)
        below = master.children(recursive=True)
        self._executors = [one for one in below if _EXECUTOR in " ".join(one.cmdline())]
        self._others = [master, *(one for one in below if one not in self._executors)]
        if len(self._executors) != len(cores):
            raise RuntimeError(f"{len(self._executors)} executor processes, not {len(cores)}")
        for process, core in zip(self._executors, cores, strict=True):
            process.cpu_affinity([core])

    def memory_mb(self) -> float:
        """Of the first executor process, now."""
        return float(self._executors[0].memory_info().rss) / 2**20

    async def run(self, site: Site) -> list[Run]:
        """One crawl of the whole site by each executor process."""
        site.begin()
        before = [_cpu_s(process) for process in self._executors]
        others_before = sum(map(_cpu_s, self._others))
        tasks = [await self._submit(site, depth=1_000, max_pages=1_000_000) for _ in self._executors]
        for task in tasks:
            await self._ended(task)
        cpu_s = [_cpu_s(process) - then for process, then in zip(self._executors, before, strict=True)]
        self.others_cpu_s.append((sum(map(_cpu_s, self._others)) - others_before) / len(tasks) / site.pages * 1_000)
        asked = site.asked(len(tasks))
        for task in tasks:
            site.check(await self._running.get(f"tasks/{task}/results:export?format=jsonl"))
        rate = site.pages / (asked.last_at - asked.first_at)
        peaks = [_peak_mb(process.pid) for process in self._executors]
        return [Run(rate, took / site.pages * 1_000, peak) for took, peak in zip(cpu_s, peaks, strict=True)]

    async def _submit(self, site: Site, **more: Any) -> str:
        plan = {"products": {"container": "main.product", "fields": _FIELDS}}
        parameters = {"url": site.start, "extract": plan, "concurrency": AT_ONCE, **more}
        body = {"task_type": "web_crawl", "project_id": "bench", "parameters": parameters}
        return await self._running.submit_one(msgspec.json.encode(body))

    async def _ended(self, task: str) -> None:
        while True:
            said = msgspec.json.decode(await self._running.get(f"tasks/{task}?wait_s=10"))
            if said["status"] == "completed":
                return
            if said["status"] in {"failed", "cancelled", "dead_letter"}:
                raise RuntimeError(f"the crawl ended as {said}")
            await asyncio.sleep(_POLL_S)


@asynccontextmanager
async def ours(folder: Path, site: Site, cores: Sequence[int]) -> AsyncIterator[Ours]:
    """With an executor process on each of the cores."""
    flags = ["--allow-host", "127.0.0.1"]
    async with installation(folder, None, nodes=1, slots=2 * len(cores), flags=flags) as running:
        one = Ours(running)
        await one.prepare(site, cores)
        yield one


@contextmanager
def on_cores(cores: Sequence[int]) -> Iterator[None]:
    """For all that is started meanwhile. An agent starts as many executor processes as it may use cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1_024  # type: ignore[index]
