"""A real installation for tests: a master and workers in processes of their own, started by the command line."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from crawlfleet.client import AsyncClient
from crawlfleet.execution.agent.identity import Identity, IdentityFile
from crawlfleet.model.ids import parse_id
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.engine.sqlite.engine import SqliteEngine
from testkit.judge import judge
from testkit.patience import PATIENCE_S
from tests.processes.calls import Answer, call

_POLL_S = 0.05
_FINAL = ("completed", "failed", "timeout", "cancelled")


class Process:
    """One run of a command, with its log."""

    def __init__(self, name: str, child: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.child = child
        self.log = log

    @property
    def pid(self) -> int:
        return self.child.pid

    def tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def signal(self, number: signal.Signals) -> None:
        # Not by the child's own method: that looks whether it has ended, and takes its exit status from who waits.
        if self.child.returncode is None:
            os.kill(self.pid, number)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.child.wait()

    async def stop(self) -> int:
        if self.child.returncode is None:
            self.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE_S):
            return await self.child.wait()


class Fleet:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "master"
        self.master: Process
        self.workers: list[Process] = []
        self.client: AsyncClient
        self.answered: dict[str, list[int]] = {}
        self._started: list[Process] = []

    async def start(self, *options: str, workers: int = 2, slots: int = 8) -> None:
        """A master, and workers that are online; the options are theirs."""
        await self.start_master()
        for number in range(workers):
            await self.start_worker(f"worker-{number}", *options, slots=slots)
        await self.until_online(workers)

    async def start_master(self, *options: str, port: int = 0, within: Sequence[str] = ()) -> None:
        (self.data_dir / "address").unlink(missing_ok=True)
        self.master = await self._spawn(
            "master", "master", "--data-dir", str(self.data_dir), "--port", str(port), *options, within=within
        )
        files = (self.data_dir / "address", self.data_dir / "admin.token")
        await self.until(
            lambda: self._has_ended() or all(file.exists() for file in files), "the master has not started"
        )
        assert not self._has_ended(), self.logs()
        self.client = AsyncClient(files[0].read_text().strip(), files[1].read_text().strip())

        await self.until(self._is_ready, "the master is not ready")

    def _has_ended(self) -> bool:
        return self.master.child.returncode is not None

    async def _is_ready(self) -> bool:
        try:
            async with aiohttp.request("GET", f"{self.client.url}/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def start_worker(
        self,
        name: str,
        *options: str,
        slots: int = 8,
        token: str | None = None,
        within: Sequence[str] = (),
        masters: Sequence[str] = (),
    ) -> Process:
        """`within`: a command that runs the worker, such as `unshare`; `masters`: other ways to them."""
        token = token or (await self.client.create_token("enrol", uses=1)).token
        worker = await self._spawn(
            name,
            "worker",
            "--master",
            ",".join(masters or [self.client.url]),
            "--name",
            name,
            "--slots",
            str(slots),
            "--data-dir",
            str(self.folder / name),
            *options,
            env={"CRAWLFLEET_ENROL_TOKEN": token},
            within=within,
        )
        self.workers.append(worker)
        return worker

    async def until_online(self, count: int) -> None:
        async def are_online() -> bool:
            return sum(node.status == "online" for node in await self.client.nodes()) >= count

        await self.until(are_online, f"{count} nodes are not online")

    async def call(self, method: str, path: str, *, token: str | None = None, **sent: Any) -> Answer:
        """One request as it is, without the client's patience and manners; the admin's unless a token is given."""
        return await call(self.client.url, method, path, token=self.admin if token is None else token, **sent)

    @property
    def admin(self) -> str:
        return (self.data_dir / "admin.token").read_text().strip()

    def identity(self, worker: str) -> Identity:
        return IdentityFile(self.folder / worker).load()

    async def submit(self, tasks: Sequence[dict[str, Any]]) -> list[str]:
        ids = [item.id for item in await self.client.submit_batch(tasks)]
        self.note(ids)
        return ids

    def note(self, ids: Sequence[str]) -> None:
        """What a master answered to have taken."""
        self.answered[f"batch-{len(self.answered)}"] = [parse_id(text, "task", field="id") for text in ids]

    async def until_status(self, ids: Sequence[str], status: str, within_s: float = PATIENCE_S) -> None:
        async def have_it() -> bool:
            return all([(await self.client.get(task)).status == status for task in ids])

        await self.until(have_it, f"not all are {status}", within_s)

    async def until_final(self, count: int, within_s: float = PATIENCE_S) -> dict[str, int]:
        async def are_final() -> bool:
            stats = (await self.client.stats()).by_status
            return sum(stats.get(status, 0) for status in _FINAL) >= count

        await self.until(are_final, f"{count} tasks are not final", within_s)
        return dict((await self.client.stats()).by_status)

    async def until(
        self, condition: Callable[[], bool | Awaitable[bool]], otherwise: str, within_s: float = PATIENCE_S
    ) -> None:
        deadline = asyncio.get_running_loop().time() + within_s
        while True:
            found = condition()
            if found is True or (not isinstance(found, bool) and await found):
                return
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{otherwise} after {within_s} s\n{self.logs()}")
            await asyncio.sleep(_POLL_S)

    def has_said(self, word: str) -> bool:
        """Whether any of its processes wrote the word into its log."""
        return any(word in log.read_text() for log in self.folder.glob("*.log"))

    def logs(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-3_000:]}" for log in sorted(self.folder.glob("*.log")))

    async def open_engine(self) -> QueryEngine:
        return SqliteEngine(self.data_dir / "crawlfleet.db")

    async def verdict(self) -> list[str]:
        """Stop everything, then ask the checker."""
        await self.close()
        engine = await self.open_engine()
        try:
            return [str(violation) for violation in await judge(engine, self.answered)]
        finally:
            await engine.close()

    async def close(self) -> None:
        for worker in self.workers:
            if worker.child.returncode is None:
                worker.signal(signal.SIGCONT)
                await worker.stop()
        if hasattr(self, "client"):
            await self.client.close()
        if hasattr(self, "master"):
            await self.master.stop()

    async def kill_all(self) -> None:
        """Everything that was ever started and still runs, with all below it."""
        left = [process for process in self._started if process.child.returncode is None]
        for process in left:
            for one in reversed(process.tree()):
                try:
                    one.kill()
                except psutil.NoSuchProcess:
                    continue
        await asyncio.gather(*(process.child.wait() for process in left))

    async def run(self, name: str, *argv: str, env: dict[str, str] | None = None) -> tuple[int, str]:
        """A command that ends by itself: its exit code, and what it said."""
        process = await self._spawn(name, *argv, env=env)
        async with asyncio.timeout(PATIENCE_S):
            return await process.child.wait(), process.log.read_text()

    async def _spawn(
        self, name: str, *argv: str, env: dict[str, str] | None = None, within: Sequence[str] = ()
    ) -> Process:
        log = self.folder / f"{len(self._started) + 1}-{name}.log"
        with log.open("wb") as file:
            child = await asyncio.create_subprocess_exec(
                *within,
                sys.executable,
                "-m",
                "crawlfleet.cli",
                *argv,
                stdout=file,
                stderr=file,
                env={**os.environ, "CRAWLFLEET_LOG_FORMAT": "console", **(env or {})},
            )
        self._started.append(Process(name, child, log))
        return self._started[-1]


@asynccontextmanager
async def fleet(folder: Path) -> AsyncIterator[Fleet]:
    """Whatever a test leaves running is killed, and gone when this returns."""
    running = Fleet(folder)
    try:
        yield running
        await running.close()
    finally:
        if hasattr(running, "client"):
            await running.client.close()
        await running.kill_all()


def echo(number: int) -> dict[str, Any]:
    return {"task_type": "echo", "parameters": {"n": number}}


def sleep(seconds: float) -> dict[str, Any]:
    return {"task_type": "sleep", "parameters": {"seconds": seconds}}
