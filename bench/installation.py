"""A real installation in processes of its own, and what the benchmarks ask of it over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import psutil

from bench.raw import PAYLOAD

_START_S = 30.0
_POLL_S = 0.02
BATCH = 1_000
BODY = b'{"task_type":"echo","project_id":"bench","parameters":%s}' % PAYLOAD


class Installation:
    def __init__(self, url: str, token: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.token = token
        self.process = process
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"})

    async def submit(self, count: int, callers: int = 1) -> None:
        """In batches of a thousand, by so many callers at a time."""
        body = b'{"mode":"atomic","tasks":[' + b",".join([BODY] * BATCH) + b"]}"

        async def call() -> None:
            for _ in range(count // BATCH // callers):
                async with self._session.post(f"{self.url}/api/v1/tasks:batch", data=body, headers=JSON) as response:
                    if response.status != 200:
                        raise RuntimeError(await response.text())
                    await response.read()

        await asyncio.gather(*(call() for _ in range(callers)))

    async def post(self, path: str) -> None:
        async with self._session.post(f"{self.url}/api/v1/{path}") as response:
            response.raise_for_status()

    async def submit_one(self) -> str:
        async with self._session.post(f"{self.url}/api/v1/tasks", data=BODY, headers=JSON) as response:
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

    async def latency_ms(self) -> float:
        """Submit to finished, as a client sees it that waits for the end of its task."""
        began = time.perf_counter()
        task = await self.submit_one()
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
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    async def close(self) -> None:
        await self._session.close()


JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def installation(folder: Path, store: str | None, *, nodes: int, slots: int) -> AsyncIterator[Installation]:
    argv = [sys.executable, "-m", "crawlfleet.cli", "standalone", "--data-dir", str(folder), "--port", "0"]
    argv += ["--nodes", str(nodes), "--slots", str(slots), *(["--store", store] if store else [])]
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        process = subprocess.Popen(argv, stderr=log, stdout=log, env={**os.environ, "CRAWLFLEET_LOG_LEVEL": "warning"})
        try:
            running = await _started(folder, process)
            try:
                while await running.nodes_online() < nodes:
                    await asyncio.sleep(0.1)
                yield running
            finally:
                await running.close()
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.to_thread(process.wait, 30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _started(folder: Path, process: subprocess.Popen[bytes]) -> Installation:
    deadline = time.monotonic() + _START_S
    files = (folder / "address", folder / "admin.token")
    while not all(file.exists() for file in files):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the installation did not start: see {folder}.log")
        await asyncio.sleep(0.05)
    return Installation(files[0].read_text().strip(), files[1].read_text().strip(), process)
