"""Shared executor processes, in which executions of built-in types run: one event loop for each core of the machine.

When one dies, all its executions are lost with it (`End.PROCESS_LOST`) and it is started again at once. A process that
does not answer pings, because something in it holds the interpreter, is killed, and so is one in which an execution
does not stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

import msgspec
import structlog

from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.executors.outside.base_process import LAST_READ_S, ExecutorProcess
from crawlfleet.execution.executors.outside.running_execution import ProcessDied, RunningExecution, run_uncancelled
from crawlfleet.execution.executors.outside.spawn import spawn_shared
from crawlfleet.execution.executors.protocol import (
    CancelExecution,
    Credit,
    Done,
    FetchEarlierNotes,
    FetchSpans,
    GrantsInEffect,
    HostNoteReport,
    HostUsageReport,
    Items,
    LogLines,
    MasterRequest,
    Ping,
    Pong,
    ProcessConfig,
    ProgressFigures,
    ProxyStates,
    Ready,
    SliceRequest,
    ToAgent,
    ToProcess,
    WarcRecords,
)
from crawlfleet.execution.master_calls.proxy_reports import ProxyHealthReports
from crawlfleet.model.execution import End

log = structlog.get_logger()

PING_S = 0.5
SILENT_PINGS = 6
"""Number of unanswered pings after which a process is killed: three seconds."""
START_S = 30.0
STOP_S = 1.0
"""Timeout for an execution to stop. Killing the process would hit its neighbours, so this is most of the time there
is."""
BRIEF_S, LONGEST_PAUSE_S = 1.0, 5.0


class SharedProcess(ExecutorProcess):
    """An executor process that many executions of built-in types share."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        grants: HostGrants | None = None,
        proxies: ProxyHealthReports | None = None,
    ) -> None:
        super().__init__(grants)
        self._process = process
        self._proxies = proxies
        self._executions: dict[int, RunningExecution] = {}
        self._pings = self._pongs = 0
        self.ready = asyncio.Event()
        self.is_closing = False

    @classmethod
    async def start(
        cls, config: ProcessConfig, grants: HostGrants | None = None, proxies: ProxyHealthReports | None = None
    ) -> SharedProcess:
        child, sock = await spawn_shared()
        process = cls(child, grants, proxies)
        try:
            await process._connect(sock, process.pid, config)
        except BaseException:
            process.kill("not connected")
            sock.close()
            raise
        return process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def execution_count(self) -> int:
        return len(self._executions)

    @property
    def is_usable(self) -> bool:
        return self.ready.is_set() and not self.is_closing

    def send_config(self, config: ProcessConfig) -> None:
        """Send the configuration for executions that are started from now on."""
        self._send(config)

    def start_execution(self, execution: RunningExecution) -> None:
        self._executions[execution.id] = execution
        self._send_start(execution)

    async def stop_execution(self, execution: RunningExecution) -> None:
        """Stop an execution; returns when nothing of it runs any more."""
        if execution.is_gone:
            return
        self._send(CancelExecution(execution.id))
        if not await execution.wait_until_gone(STOP_S):
            self.kill(f"an execution of {execution.assignment.task_type} did not stop")
            await self._process.wait()

    def send_ping(self) -> None:
        """Send a ping, which is also the heartbeat of the agent; kill a process that does not answer."""
        self._pings += 1
        self._send(Ping(self._pings))
        if self.ready.is_set() and self._pings - self._pongs > SILENT_PINGS:
            self.kill("it did not answer")

    def reset_pings(self) -> None:
        """Forget unanswered pings, after the agent itself stood still and could not read the answers."""
        self._pongs = self._pings

    def kill(self, why: str = "") -> None:
        self.is_closing = True
        self._why = self._why or why
        if self._process.returncode is None:
            # Not by `kill` of the process: that looks first whether it has ended, and takes its exit status away.
            try:
                os.kill(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    async def wait_until_dead(self) -> None:
        """Wait for the end of the process, and end every execution in it."""
        code = await self._process.wait()
        self.is_closing = True
        if self._frames is not None:
            await self._frames.read_to_end(LAST_READ_S)
        if self._grants is not None:
            self._grants.remove_process(self.pid)
        if self._proxies is not None:
            self._proxies.remove_process(self.pid)
        cause = self._why or _exit_text(code)
        for execution in list(self._executions.values()):
            execution.set_end(ProcessDied(End.PROCESS_LOST, f"its executor process died: {cause}"))
        if self._executions or not self._why:
            log.warning("executor_process_died", pid=self.pid, why=cause, executions=len(self._executions))
        self._executions.clear()

    def _handle_messages(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        for message in messages:
            match message:
                case Done():
                    if (execution := self._executions.pop(message.execution, None)) is not None:
                        execution.handle_message(message)
                case ProgressFigures() | SliceRequest() | MasterRequest() | FetchEarlierNotes() | FetchSpans():
                    if (execution := self._executions.get(message.execution)) is not None:
                        execution.handle_message(message)
                case Items() | LogLines() | WarcRecords():
                    if (execution := self._executions.get(message.execution)) is not None:
                        execution.handle_message(message)
                    else:
                        self._send(Credit(message.execution, len(message.lines)))
                case HostUsageReport() | GrantsInEffect() | HostNoteReport():
                    self._apply_host_message(self.pid, message)
                case ProxyStates() if self._proxies is not None:
                    self._proxies.update_process(self.pid, message.proxies)
                case Pong():
                    self._pongs = max(self._pongs, message.number)
                case Ready():
                    self._pongs = self._pings
                    self.ready.set()

    def _on_disconnect(self) -> None:
        # Nearly always it is dead already, and its exit status says why.
        self.kill()


class SharedProcessPool:
    """A pool of shared processes, one for each core, each restarted when it dies."""

    def __init__(
        self,
        count: int,
        config: ProcessConfig,
        grants: HostGrants | None = None,
        proxies: ProxyHealthReports | None = None,
    ) -> None:
        self._config = config
        self._grants = grants
        self._proxies = proxies
        self._processes: list[SharedProcess | None] = [None] * count
        self._tasks: list[asyncio.Task[None]] = []
        self._usable = asyncio.Event()
        self._is_closing = False

    def allow_hosts(self, hosts: list[str]) -> None:
        self._config = msgspec.structs.replace(self._config, allow_hosts=hosts)
        for process in self.processes:
            process.send_config(self._config)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_alive(index), name=f"process-{index}")
            for index in range(len(self._processes))
        ]
        self._tasks.append(asyncio.create_task(self._ping_processes(), name="process-watch"))

    async def close(self) -> None:
        self._is_closing = True
        self._usable.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def processes(self) -> Sequence[SharedProcess]:
        return [process for process in self._processes if process is not None]

    async def wait_for_least_busy(self) -> SharedProcess | None:
        """The usable process with the fewest executions; waits for one, and returns None when the pool is closed."""
        while not self._is_closing:
            usable = [process for process in self._processes if process is not None and process.is_usable]
            if usable:
                return min(usable, key=_execution_count)
            self._usable.clear()
            await self._usable.wait()
        return None

    async def _keep_alive(self, index: int) -> None:
        pause_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            started_at, config = loop.time(), self._config
            try:
                # Must not be cancelled halfway: an untracked process could stay behind.
                process = await run_uncancelled(SharedProcess.start(config, self._grants, self._proxies))
            except OSError as exc:
                log.warning("executor_process_not_started", error=str(exc))
            else:
                if config is not self._config:
                    process.send_config(self._config)
                await self._run_process(index, process)
            if self._is_closing:
                return
            # Back-off, so that a process that cannot start is not restarted in a tight loop.
            pause_s = 0.0 if loop.time() - started_at > BRIEF_S else min(LONGEST_PAUSE_S, 2 * pause_s + 0.1)
            await asyncio.sleep(pause_s)

    async def _run_process(self, index: int, process: SharedProcess) -> None:
        self._processes[index] = process
        try:
            if self._is_closing:
                return
            async with asyncio.TaskGroup() as group:
                starting = group.create_task(self._await_ready(process))
                await process.wait_until_dead()
                starting.cancel()
        finally:
            self._processes[index] = None
            # Also wait for one that is being killed already.
            process.kill("the agent ends")
            await process.wait_until_dead()

    async def _await_ready(self, process: SharedProcess) -> None:
        try:
            async with asyncio.timeout(START_S):
                await process.ready.wait()
            self._usable.set()
        except TimeoutError:
            process.kill(f"not ready within {START_S:g} s")

    async def _ping_processes(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            slept_from = loop.time()
            await asyncio.sleep(PING_S)
            is_late = loop.time() - slept_from > 2 * PING_S
            for process in self.processes:
                if is_late:
                    process.reset_pings()
                process.send_ping()


def _execution_count(process: SharedProcess) -> int:
    return process.execution_count


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
