"""The process of one execution: a user's type, or a built-in one that is not trusted with company any more.

start     a new interpreter below a supervisor (supervise.py), in a directory of its own that is removed afterwards
running   stdout and stderr become lines of its log; the memory of the whole tree is watched
stopping  asked politely first, then the supervisor kills the tree; if that takes too long, the agent does
over      when the supervisor has ended: nothing of the execution runs any more
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from crawlfleet.execution.agent.work.host_grants import HostGrants
from crawlfleet.execution.budget.host_gate import ProcessShare
from crawlfleet.execution.executors.inside.output_stream import log_line
from crawlfleet.execution.executors.outside import linux
from crawlfleet.execution.executors.outside.running_execution import Died, Flight, OnStart
from crawlfleet.execution.executors.outside.shared_process import hear_of_hosts
from crawlfleet.execution.executors.outside.spawn import connect, spawn_alone
from crawlfleet.execution.executors.protocol import (
    CancelExecution,
    Done,
    ExtendGrants,
    FetchEarlierNotes,
    FrameConnection,
    GrantsInEffect,
    HostNewsReport,
    HostUsageReport,
    Items,
    LogLines,
    MasterRequest,
    ProcessConfig,
    ProcessGrants,
    ProgressFigures,
    Ready,
    SliceRequest,
    ToAgent,
    ToProcess,
    WarcRecords,
)
from crawlfleet.model.execution import End

log = structlog.get_logger()

POLITE_S = 0.5
FORCED_S = 0.6
PROCESSES_MOST = 256
LAST_READ_S = 0.3
LAST_LINES = 5
LINE_BYTES = 8_000
READ_BYTES = 64 << 10


class AloneHost:
    def __init__(
        self,
        flight: Flight,
        serve: ProcessConfig,
        directory: Path,
        memory_bytes: int,
        on_start: OnStart,
        grants: HostGrants | None = None,
    ) -> None:
        self._flight = flight
        self._serve = serve
        self._parent_directory = directory
        self._memory_bytes = memory_bytes
        self._on_start = on_start
        self._grants = grants
        self._began_at = time.monotonic()
        self._frames: FrameConnection | None = None
        self._control: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._done: Done | None = None
        self._why = ""
        self._is_over = False
        self._stderr_tail: deque[str] = deque(maxlen=LAST_LINES)
        self._stopping: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Of the supervisor, while there is one."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """From start to end; the flight is told how it ended. Not to be cancelled: `stop` it."""
        directory: Path | None = None
        try:
            directory = Path(tempfile.mkdtemp(prefix="execution-", dir=self._parent_directory))
            self._flight.end(self._ended(await self._live(directory)))
        except Exception as exc:  # whatever it is, somebody waits for an end
            log.warning("execution_process_failed", execution=self._flight.execution, error=repr(exc))
            self._flight.end(Died(End.PROCESS_LOST, f"its process could not be run: {exc}"))
        finally:
            if directory is not None:
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def stop(self) -> None:
        """Politely, and by force if need be; `run` returns when it is over."""
        if self._frames is not None:
            self._frames.send(CancelExecution(self._flight.execution))
        self._schedule(POLITE_S, self.kill)

    def kill(self, why: str = "") -> None:
        self._why = self._why or why
        self._is_over = True
        self._hang_up()
        self._schedule(FORCED_S, self._force)

    def grant(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        if self._frames is not None:
            self._frames.send(ProcessGrants(version, until, list(shares)))

    def extend(self, until: float) -> None:
        if self._frames is not None:
            self._frames.send(ExtendGrants(until))

    def heartbeat(self) -> None:
        """The supervisor ends everything when it does not hear of the agent for long."""
        if self._control is not None:
            try:
                self._control.send(b".")
            except OSError:
                pass

    def watch(self, processes: linux.Processes) -> None:
        """Memory and number of the whole tree, and the end of all of it when it is too much."""
        if self.pid is None or self._why:
            return
        tree = processes.below(self.pid)
        if len(tree) > PROCESSES_MOST:
            self.kill(f"started more than {PROCESSES_MOST} processes")
        elif processes.memory_bytes(tree) > self._memory_bytes < linux.shared_out_memory_bytes(tree):
            self.kill(f"used more than {self._memory_bytes >> 20} MB of memory")

    async def _live(self, directory: Path) -> int | None:
        spawned = await spawn_alone(directory, self._memory_bytes)
        self._process, self._control = spawned.process, spawned.control
        if self._is_over:
            # Told to stop while it was being started.
            self.kill()
        try:
            self._frames = await connect(spawned.frames, self._take, self._disconnected)
            self._frames.send(self._serve)
            if self._grants is not None:
                self._grants.add_process(spawned.process.pid, self)
            start = self._flight.start
            self._frames.send(start, len(start.parameters))
            self._flight.send = self._frames.send
            async with asyncio.TaskGroup() as group:
                readers = [
                    group.create_task(self._read(spawned.process.stdout, "info")),
                    group.create_task(self._read(spawned.process.stderr, "warning")),
                ]
                status = await self._status()
                await spawned.process.wait()
                # All writers are gone, unless somebody broke out of the tree and holds something open.
                await self._frames.read_to_end(LAST_READ_S)
                await asyncio.wait(readers, timeout=LAST_READ_S)
                for reader in readers:
                    reader.cancel()
            return status
        finally:
            if self._stopping is not None:
                self._stopping.cancel()
            if self._frames is not None:
                self._frames.abort()
            if self._grants is not None:
                self._grants.remove_process(spawned.process.pid)
            spawned.control.close()
            self._control = None

    async def _status(self) -> int | None:
        """What the supervisor says when the tree is gone: the process's wait status, -1 when it was told to end it."""
        control = self._control
        if control is None:
            return None
        said = b""
        loop = asyncio.get_running_loop()
        while True:
            try:
                part = await loop.sock_recv(control, 64)
            except OSError:
                return None
            if not part:
                return int(said) if said.lstrip(b"-").isdigit() else None
            said += part

    def _hang_up(self) -> None:
        """Closes the way to the supervisor, which is the order to end everything; it can still answer."""
        if self._control is not None:
            try:
                self._control.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def _force(self) -> None:
        if self.pid is not None:
            linux.kill_tree(self.pid)

    def _schedule(self, after_s: float, act: Callable[[], None]) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.get_running_loop().call_later(after_s, act)

    def _take(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        for message in messages:
            if isinstance(
                message,
                Items
                | LogLines
                | WarcRecords
                | ProgressFigures
                | SliceRequest
                | MasterRequest
                | FetchEarlierNotes
                | Done,
            ):
                if message.execution != self._flight.execution:
                    continue
                if isinstance(message, Done):
                    self._done = self._done or message
                else:
                    self._flight.take(message)
            elif isinstance(message, HostUsageReport | GrantsInEffect | HostNewsReport):
                # Also of one that has ended: it may have said something before.
                if self._grants is not None and self._process is not None:
                    hear_of_hosts(self._grants, self._process.pid, message)
            elif isinstance(message, Ready):
                self._on_start(self._flight.execution, time.monotonic() - self._began_at)

    def _disconnected(self) -> None:
        """It said its last word, or broke off: the rest of the tree has no business here."""
        self._schedule(POLITE_S, self.kill)

    async def _read(self, pipe: asyncio.StreamReader | None, level: str) -> None:
        """What the process prints. While the log cannot be taken away, it is not read, and the process waits."""
        if pipe is None:
            return
        unfinished = b""
        while part := await pipe.read(READ_BYTES):
            *lines, unfinished = (unfinished + part).split(b"\n")
            if len(unfinished) > LINE_BYTES:
                lines, unfinished = [*lines, unfinished], b""
            await self._log(lines, level)
        if unfinished:
            await self._log([unfinished], level)

    async def _log(self, lines: list[bytes], level: str) -> None:
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines if line.strip()]
        if not texts:
            return
        if level != "info":
            self._stderr_tail.extend(text[:300] for text in texts[-LAST_LINES:])
        self._flight.upload.add_log(b"".join(log_line(text, level) for text in texts), _nobody)
        await self._flight.upload.has_room()

    def _ended(self, status: int | None) -> Done | Died:
        if self._why:
            return Died(End.DIED_ALONE, self._why)
        if self._done is not None:
            return self._done
        return Died(End.DIED_ALONE, " | ".join([_status_text(status), *self._stderr_tail]))


def _status_text(status: int | None) -> str:
    if status is None:
        return "its process was killed together with its supervisor"
    if status == -1:
        return "its process broke off the connection to its agent"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            return f"its process was killed by {signal.Signals(number).name}"
        except ValueError:
            return f"its process was killed by signal {number}"
    return f"its process ended with exit code {os.WEXITSTATUS(status)} and no outcome"


def _nobody(_size: int) -> None:
    pass
