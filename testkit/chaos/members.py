"""A master or a worker as a process: started, killed, frozen and stopped, with a log of each run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from crawlfleet.execution.executors.outside.linux_processes import end_with_parent
from testkit.servers.supervisor import send, tree

STOP_S = 60.0


class Member:
    """One master or worker over all its runs."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        on_end: Callable[[str], None],
    ) -> None:
        """`within`: a command that runs another, such as `nsenter`. `on_end` is called at an unexpected end."""
        self.name = name
        self.log_folder = folder
        self._argv = [*within, sys.executable, "-m", "crawlfleet.cli", *argv]
        # Settings of the calling process are not those of the cluster.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("CRAWLFLEET_")}
        self._env = {**inherited, "CRAWLFLEET_LOG_FORMAT": "console", **(env or {})}
        self._on_end = on_end
        self._runs = 0
        self._child: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_told = False

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    @property
    def runs(self) -> int:
        return self._runs

    async def start(self) -> None:
        self._runs += 1
        parent = os.getpid()
        with (self.log_folder / f"{self.name}.{self._runs}.log").open("wb") as log:
            self._child = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                # This is the only thread that starts processes, and everything it starts must end with it.
                preexec_fn=lambda: end_with_parent(parent),
            )
        self._is_told = False
        self._watching = asyncio.create_task(self._watch(self._child), name=f"watch {self.name}")

    async def kill(self) -> None:
        """Send SIGKILL to the one process: its children must not outlive it."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int | None:
        """Send SIGTERM; returns the exit code, or None when it had to be killed after all."""
        return await self._end(signal.SIGTERM)

    def freeze(self) -> None:
        if self.pid is not None:
            send(tree(self.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        if self.pid is not None:
            send(tree(self.pid), signal.SIGCONT)

    def processes(self) -> list[psutil.Process]:
        return [] if self.pid is None else tree(self.pid)

    async def _end(self, number: signal.Signals) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        self._is_told = True
        whole = tree(child.pid)
        if child.returncode is None:
            child.send_signal(number)
        try:
            async with asyncio.timeout(STOP_S):
                code = await child.wait()
        except TimeoutError:
            send(whole, signal.SIGKILL)
            await child.wait()
            return None
        await asyncio.to_thread(psutil.wait_procs, whole, timeout=STOP_S)
        return code

    async def _watch(self, child: asyncio.subprocess.Process) -> None:
        code = await child.wait()
        if not self._is_told and self._child is child:
            self._on_end(f"{self.name} ended by itself with {code}")
