"""A real installation in processes of its own, and what the benchmarks ask of it over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil

from bench.raw import PAYLOAD

_START_S = 30.0
_POLL_S = 0.02
BATCH = 1_000
BODY = b'{"task_type":"echo","project_id":"bench","parameters":%s}' % PAYLOAD


class Installation:
    """`processes` are those of its masters, in the order of their addresses."""

    def __init__(self, urls: Sequence[str], token: str, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        self.urls = list(urls)
        self.token = token
        self.processes = list(processes)
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"})

    @property
    def url(self) -> str:
        return self.urls[0]

    async def submit(self, count: int, callers: int = 1) -> None:
        """In batches of a thousand, by so many callers at a time, to one master after the other."""
        body = b'{"mode":"atomic","tasks":[' + b",".join([BODY] * BATCH) + b"]}"

        async def call() -> None:
            for number in range(count // BATCH // callers):
                url = f"{self.urls[number % len(self.urls)]}/api/v1/tasks:batch"
                async with self._session.post(url, data=body, headers=JSON) as response:
                    if response.status != 200:
                        raise RuntimeError(await response.text())
                    await response.read()

        await asyncio.gather(*(call() for _ in range(callers)))

    async def post(self, path: str, body: Any = None) -> Any:
        async with self._session.post(f"{self.url}/api/v1/{path}", json=body) as response:
            if response.status >= 300:
                raise RuntimeError(await response.text())
            return await response.json(content_type=None)

    async def put(self, path: str, body: Any) -> None:
        async with self._session.put(f"{self.url}/api/v1/{path}", json=body) as response:
            if response.status >= 300:
                raise RuntimeError(await response.text())

    async def get(self, path: str) -> bytes:
        async with self._session.get(f"{self.url}/api/v1/{path}") as response:
            body = await response.read()
            if response.status >= 300:
                raise RuntimeError(body.decode())
            return body

    async def submit_one(self, body: bytes = BODY) -> str:
        async with self._session.post(f"{self.url}/api/v1/tasks", data=body, headers=JSON) as response:
            answer = msgspec.json.decode(await response.read())
            task: str = answer["id"]
            return task

    async def completed(self) -> int:
        async with self._session.get(f"{self.url}/api/v1/tasks:stats") as response:
            count: int = msgspec.json.decode(await response.read())["by_status"]["completed"]
            return count

    async def nodes_online(self) -> int:
        async with self._session.get(f"{self.url}/api/v1/nodes") as response:
            nodes = msgspec.json.decode(await response.read())["nodes"]
            return sum(node["status"] == "online" for node in nodes)

    async def cycle_rate(self, count: int) -> float:
        """Tasks a second from the first submit to the last finished."""
        before = await self.completed()
        began = time.perf_counter()
        await self.submit(count)
        while await self.completed() - before < count:
            await asyncio.sleep(_POLL_S)
        return count / (time.perf_counter() - began)

    async def submit_rate(self, count: int, callers: int) -> float:
        began = time.perf_counter()
        await self.submit(count, callers)
        return count / (time.perf_counter() - began)

    async def latency_ms(self, body: bytes = BODY) -> float:
        """Submit to finished, as a client sees it that waits for the end of its task."""
        began = time.perf_counter()
        task = await self.submit_one(body)
        async with self._session.get(f"{self.url}/api/v1/tasks/{task}", params={"wait_s": 10}) as response:
            answer = msgspec.json.decode(await response.read())
        took_ms = (time.perf_counter() - began) * 1_000
        if answer["status"] != "completed":
            raise RuntimeError(f"a task did not complete: {answer}")
        return took_ms

    async def drained(self) -> None:
        while True:
            async with self._session.get(f"{self.url}/api/v1/tasks:stats") as response:
                counts = msgspec.json.decode(await response.read())["by_status"]
            if not any(counts[status] for status in ("pending", "assigned", "processing", "waiting", "retrying")):
                return
            await asyncio.sleep(0.1)

    def master_cpu_s(self) -> float:
        """Of all of them, without what they started."""
        times = [psutil.Process(process.pid).cpu_times() for process in self.processes]
        return float(sum(one.user + one.system for one in times))

    async def close(self) -> None:
        await self._session.close()


JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def installation(
    folder: Path,
    store: str | None,
    *,
    nodes: int,
    slots: int,
    env: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> AsyncIterator[Installation]:
    argv = ["standalone", "--data-dir", str(folder), "--port", "0", "--nodes", str(nodes), "--slots", str(slots)]
    argv += ["--store", store] if store else []
    argv += flags
    with command(folder.parent / f"{folder.name}.log", *argv, env=env) as process:
        running = Installation([await address(folder, process)], token_in(folder), [process])
        async with served(running, nodes):
            yield running


@asynccontextmanager
async def served(running: Installation, nodes: int) -> AsyncIterator[None]:
    """From the moment that so many nodes are online."""
    try:
        while await running.nodes_online() < nodes:
            await asyncio.sleep(0.1)
        yield
    finally:
        await running.close()


@contextmanager
def command(log: Path, *argv: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """`crawlfleet ...` as a process, ended with the context."""
    quiet = {**os.environ, "CRAWLFLEET_LOG_LEVEL": "warning", **(env or {})}
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, "-m", "crawlfleet.cli", *argv], stderr=file, stdout=file, env=quiet)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Of a master, when it serves."""
    deadline = time.monotonic() + _START_S
    file = folder / "address"
    while not file.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the installation did not start: see {folder}.log")
        await asyncio.sleep(0.05)
    return file.read_text().strip()


def token_in(folder: Path) -> str:
    return (folder / "admin.token").read_text().strip()
