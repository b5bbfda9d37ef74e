"""The isolated process of one execution: a user's type, or a built-in one that must not share a process any more.

start     a new interpreter below a supervisor (supervisor.py), in a directory of its own that is removed afterwards
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
from collections.abc import Callable
from pathlib import Path

import structlog

from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.executors.inside.output_stream import encode_log_line
from crawlfleet.execution.executors.outside import linux_processes
from crawlfleet.execution.executors.outside.base_process import LAST_READ_S, ExecutorProcess
from crawlfleet.execution.executors.outside.running_execution import OnStart, ProcessDied, RunningExecution
from crawlfleet.execution.executors.outside.spawn import spawn_isolated
from crawlfleet.execution.executors.protocol import (
    CancelExecution,
    Done,
    ExecutionMessage,
    HostMessage,
    ProcessConfig,
    Ready,
    ToAgent,
    ToProcess,
)
from crawlfleet.model.execution import End

log = structlog.get_logger()

POLITE_S = 0.5
FORCED_S = 0.6
MAX_PROCESSES = 256
LAST_LINES = 5
LINE_BYTES = 8_000
READ_BYTES = 64 << 10


class IsolatedProcess(ExecutorProcess):
    """An executor process for one execution, below a supervisor."""

    def __init__(
        self,
        execution: RunningExecution,
        config: ProcessConfig,
        directory: Path,
        memory_bytes: int,
        on_start: OnStart,
        grants: HostGrants | None = None,
    ) -> None:
        super().__init__(grants)
        self._execution = execution
        self._config = config
        self._parent_directory = directory
        self._memory_bytes = memory_bytes
        self._on_start = on_start
        self._created_at = time.monotonic()
        self._control: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._done: Done | None = None
        self._is_over = False
        self._stderr_tail: deque[str] = deque(maxlen=LAST_LINES)
        self._stopping: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor, while it runs."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def run(self) -> None:
        """Run the process from start to end, and set the end of its execution. Must not be cancelled: use `stop`."""
        directory: Path | None = None
        try:
            directory = Path(tempfile.mkdtemp(prefix="execution-", dir=self._parent_directory))
            self._execution.set_end(self._execution_end(await self._run_process(directory)))
        except Exception as exc:  # the caller waits for an end, whatever the error
            log.warning("execution_process_failed", execution=self._execution.id, error=repr(exc))
            self._execution.set_end(ProcessDied(End.PROCESS_LOST, f"its process could not be run: {exc}"))
        finally:
            if directory is not None:
                await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def stop(self) -> None:
        """Ask the execution to stop, and kill it if it does not; `run` returns when it is over."""
        self._send(CancelExecution(self._execution.id))
        self._schedule_stop(POLITE_S, self.kill)

    def kill(self, why: str = "") -> None:
        self._why = self._why or why
        self._is_over = True
        self._close_control()
        self._schedule_stop(FORCED_S, self._force_kill)

    def send_heartbeat(self) -> None:
        """Send the heartbeat without which the supervisor ends the process tree."""
        if self._control is not None:
            try:
                self._control.send(b".")
            except OSError:
                pass

    def check_limits(self, processes: linux_processes.ProcessTable) -> None:
        """Kill the process tree when it exceeds its memory limit or has too many processes."""
        if self.pid is None or self._why:
            return
        tree = processes.descendants(self.pid)
        if len(tree) > MAX_PROCESSES:
            self.kill(f"started more than {MAX_PROCESSES} processes")
        elif processes.memory_bytes(tree) > self._memory_bytes < linux_processes.proportional_memory_bytes(tree):
            self.kill(f"used more than {self._memory_bytes >> 20} MB of memory")

    async def _run_process(self, directory: Path) -> int | None:
        spawned = await spawn_isolated(directory, self._memory_bytes)
        self._process, self._control = spawned.process, spawned.control
        if self._is_over:
            # Stopped while it was being started.
            self.kill()
        try:
            await self._connect(spawned.frames, spawned.process.pid, self._config)
            self._send_start(self._execution)
            async with asyncio.TaskGroup() as group:
                readers = [
                    group.create_task(self._read_output(spawned.process.stdout, "info")),
                    group.create_task(self._read_output(spawned.process.stderr, "warning")),
                ]
                status = await self._read_exit_status()
                await spawned.process.wait()
                # All writers are gone, unless a process broke out of the tree and holds a pipe open.
                if self._frames is not None:
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

    async def _read_exit_status(self) -> int | None:
        """The exit status that the supervisor sends when the tree is gone; -1 when it had to end the process."""
        control = self._control
        if control is None:
            return None
        status_text = b""
        loop = asyncio.get_running_loop()
        while True:
            try:
                part = await loop.sock_recv(control, 64)
            except OSError:
                return None
            if not part:
                return int(status_text) if status_text.lstrip(b"-").isdigit() else None
            status_text += part

    def _close_control(self) -> None:
        """Close the control socket for writing: the order to the supervisor to end the tree. It can still answer."""
        if self._control is not None:
            try:
                self._control.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def _force_kill(self) -> None:
        if self.pid is not None:
            linux_processes.kill_tree(self.pid)

    def _schedule_stop(self, after_s: float, act: Callable[[], None]) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.get_running_loop().call_later(after_s, act)

    def _handle_messages(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        for message in messages:
            if isinstance(message, ExecutionMessage):
                if message.execution != self._execution.id:
                    continue
                if isinstance(message, Done):
                    self._done = self._done or message
                else:
                    self._execution.handle_message(message)
            elif isinstance(message, HostMessage):
                if self._process is not None:
                    self._apply_host_message(self._process.pid, message)
            elif isinstance(message, Ready):
                self._on_start(self._execution.id, time.monotonic() - self._created_at)

    def _on_disconnect(self) -> None:
        """End the rest of the tree after the process closed or lost its connection."""
        self._schedule_stop(POLITE_S, self.kill)

    async def _read_output(self, pipe: asyncio.StreamReader | None, level: str) -> None:
        """Read the output of the process into its log. While the log has no space, nothing is read: back-pressure."""
        if pipe is None:
            return
        unfinished = b""
        while part := await pipe.read(READ_BYTES):
            *lines, unfinished = (unfinished + part).split(b"\n")
            if len(unfinished) > LINE_BYTES:
                lines, unfinished = [*lines, unfinished], b""
            await self._log_lines(lines, level)
        if unfinished:
            await self._log_lines([unfinished], level)

    async def _log_lines(self, lines: list[bytes], level: str) -> None:
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines if line.strip()]
        if not texts:
            return
        if level != "info":
            self._stderr_tail.extend(text[:300] for text in texts[-LAST_LINES:])
        self._execution.upload.add_log(b"".join(encode_log_line(text, level) for text in texts), _no_credit)
        await self._execution.upload.wait_for_log_space()

    def _execution_end(self, status: int | None) -> Done | ProcessDied:
        if self._why:
            return ProcessDied(End.DIED_ALONE, self._why)
        if self._done is not None:
            return self._done
        return ProcessDied(End.DIED_ALONE, " | ".join([_status_text(status), *self._stderr_tail]))


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


def _no_credit(_size: int) -> None:
    pass
