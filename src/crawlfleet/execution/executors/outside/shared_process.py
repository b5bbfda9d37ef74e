"""Executor processes that executions of built-in types share: one event loop for each core of the machine.

When one dies, everything in it is lost with it (`End.PROCESS_LOST`) and it is started again at once. One that does not
answer, because something in it holds the interpreter, is killed, and so is one in which an execution does not stop.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

import msgspec
import structlog

from crawlfleet.execution.agent.sync.proxy_reports import ProxyHealthReports
from crawlfleet.execution.agent.work.host_grants import HostGrants
from crawlfleet.execution.budget.host_gate import ProcessShare
from crawlfleet.execution.executors.outside.running_execution import Died, Flight, unhurried
from crawlfleet.execution.executors.outside.spawn import connect, spawn_shared
from crawlfleet.execution.executors.protocol import (
    CancelExecution,
    Credit,
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
    Ping,
    Pong,
    ProcessConfig,
    ProcessGrants,
    ProgressFigures,
    ProxyStates,
    Ready,
    SliceRequest,
    ToAgent,
    ToProcess,
    WarcRecords,
)
from crawlfleet.model.execution import End

log = structlog.get_logger()

PING_S = 0.5
SILENT_PINGS = 6
"""Three seconds without an answer."""
START_S = 30.0
STOP_S = 1.0
"""How long an execution may take to stop. Force would hit its neighbours, so it gets most of the time there is."""
LAST_READ_S = 0.3
BRIEF_S, LONGEST_PAUSE_S = 1.0, 5.0


class SharedHost:
    def __init__(
        self,
        process: asyncio.subprocess.Process,
        grants: HostGrants | None = None,
        proxies: ProxyHealthReports | None = None,
    ) -> None:
        self._process = process
        self._grants = grants
        self._proxies = proxies
        self._flights: dict[int, Flight] = {}
        self._frames: FrameConnection | None = None
        self._pings = self._pongs = 0
        self.ready = asyncio.Event()
        self.is_closing = False
        self._why = ""

    @classmethod
    async def start(
        cls, serve: ProcessConfig, grants: HostGrants | None = None, proxies: ProxyHealthReports | None = None
    ) -> SharedHost:
        process, sock = await spawn_shared()
        host = cls(process, grants, proxies)
        try:
            host._frames = await connect(sock, host._take, host._disconnected)
        except BaseException:
            host.kill("not connected")
            sock.close()
            raise
        host._frames.send(serve)
        if grants is not None:
            grants.add_process(host.pid, host)
        return host

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def load(self) -> int:
        return len(self._flights)

    @property
    def is_usable(self) -> bool:
        return self.ready.is_set() and not self.is_closing

    def serve(self, serve: ProcessConfig) -> None:
        """For executions that are launched from now on."""
        self._send(serve)

    def grant(self, version: int, until: float, shares: Sequence[ProcessShare]) -> None:
        self._send(ProcessGrants(version, until, list(shares)))

    def extend(self, until: float) -> None:
        self._send(ExtendGrants(until))

    def launch(self, flight: Flight) -> None:
        self._flights[flight.execution] = flight
        flight.send = self._send
        start = flight.start
        self._send(start, len(start.parameters))

    async def stop(self, flight: Flight) -> None:
        """Returns when nothing of it runs any more."""
        if flight.gone:
            return
        self._send(CancelExecution(flight.execution))
        if not await flight.until_gone(STOP_S):
            self.kill(f"an execution of {flight.assignment.task_type} did not stop")
            await self._process.wait()

    def ping(self) -> None:
        """Also tells the process that its agent lives."""
        self._pings += 1
        self._send(Ping(self._pings))
        if self.ready.is_set() and self._pings - self._pongs > SILENT_PINGS:
            self.kill("it did not answer")

    def forgive(self) -> None:
        """The agent itself stood still: no answer could be heard."""
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

    async def until_dead(self) -> None:
        """Tells every execution in it."""
        code = await self._process.wait()
        self.is_closing = True
        if self._frames is not None:
            await self._frames.read_to_end(LAST_READ_S)
        if self._grants is not None:
            self._grants.remove_process(self.pid)
        if self._proxies is not None:
            self._proxies.remove_process(self.pid)
        how = self._why or _exit_text(code)
        for flight in list(self._flights.values()):
            flight.end(Died(End.PROCESS_LOST, f"its executor process died: {how}"))
        if self._flights or not self._why:
            log.warning("executor_process_died", pid=self.pid, why=how, executions=len(self._flights))
        self._flights.clear()

    def _send(self, message: ToProcess, size: int = 0) -> None:
        if self._frames is not None:
            self._frames.send(message, size)

    def _take(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        for message in messages:
            match message:
                case Done():
                    if (flight := self._flights.pop(message.execution, None)) is not None:
                        flight.take(message)
                case ProgressFigures() | SliceRequest() | MasterRequest() | FetchEarlierNotes():
                    if (flight := self._flights.get(message.execution)) is not None:
                        flight.take(message)
                case Items() | LogLines() | WarcRecords():
                    if (flight := self._flights.get(message.execution)) is not None:
                        flight.take(message)
                    else:
                        self._send(Credit(message.execution, len(message.lines)))
                case HostUsageReport() | GrantsInEffect() | HostNewsReport() if self._grants is not None:
                    hear_of_hosts(self._grants, self.pid, message)
                case ProxyStates() if self._proxies is not None:
                    self._proxies.update_process(self.pid, message.proxies)
                case Pong():
                    self._pongs = max(self._pongs, message.number)
                case Ready():
                    self._pongs = self._pings
                    self.ready.set()

    def _disconnected(self) -> None:
        # Nearly always it is dead already, and its exit status says why.
        self.kill()


def hear_of_hosts(grants: HostGrants, process: int, message: HostUsageReport | GrantsInEffect | HostNewsReport) -> None:
    match message:
        case HostUsageReport():
            grants.record_usage(process, message.hosts)
        case GrantsInEffect():
            grants.acknowledge_grants(process, message.version, message.pending, message.used)
        case HostNewsReport():
            grants.record_host_news(message.host, message.kind, message.span_ms)


class SharedHosts:
    """As many as there are cores, kept alive."""

    def __init__(
        self,
        count: int,
        serve: ProcessConfig,
        grants: HostGrants | None = None,
        proxies: ProxyHealthReports | None = None,
    ) -> None:
        self._serve = serve
        self._grants = grants
        self._proxies = proxies
        self._hosts: list[SharedHost | None] = [None] * count
        self._tasks: list[asyncio.Task[None]] = []
        self._usable = asyncio.Event()
        self._is_closing = False

    def allow_hosts(self, hosts: list[str]) -> None:
        self._serve = msgspec.structs.replace(self._serve, allow_hosts=hosts)
        for host in self.hosts:
            host.serve(self._serve)

    def begin(self) -> None:
        self._tasks = [
            asyncio.create_task(self._keep(place), name=f"host-{place}") for place in range(len(self._hosts))
        ]
        self._tasks.append(asyncio.create_task(self._watch(), name="host-watch"))

    async def close(self) -> None:
        self._is_closing = True
        self._usable.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def hosts(self) -> Sequence[SharedHost]:
        return [host for host in self._hosts if host is not None]

    async def least_busy(self) -> SharedHost | None:
        """Waits for one that can be used; None when there will be none any more."""
        while not self._is_closing:
            usable = [host for host in self._hosts if host is not None and host.is_usable]
            if usable:
                return min(usable, key=_load)
            self._usable.clear()
            await self._usable.wait()
        return None

    async def _keep(self, place: int) -> None:
        pause_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            began_at, serve = loop.time(), self._serve
            try:
                # Not to be broken off halfway: a process that nobody knows of could stay.
                host = await unhurried(SharedHost.start(serve, self._grants, self._proxies))
            except OSError as exc:
                log.warning("executor_process_not_started", error=str(exc))
            else:
                if serve is not self._serve:
                    host.serve(self._serve)
                await self._live(place, host)
            if self._is_closing:
                return
            # A process that cannot even start must not be started as fast as the machine can.
            pause_s = 0.0 if loop.time() - began_at > BRIEF_S else min(LONGEST_PAUSE_S, 2 * pause_s + 0.1)
            await asyncio.sleep(pause_s)

    async def _live(self, place: int, host: SharedHost) -> None:
        self._hosts[place] = host
        try:
            if self._is_closing:
                return
            async with asyncio.TaskGroup() as group:
                starting = group.create_task(self._expect(host))
                await host.until_dead()
                starting.cancel()
        finally:
            self._hosts[place] = None
            # Also one that is being killed already is waited for.
            host.kill("the agent ends")
            await host.until_dead()

    async def _expect(self, host: SharedHost) -> None:
        try:
            async with asyncio.timeout(START_S):
                await host.ready.wait()
            self._usable.set()
        except TimeoutError:
            host.kill(f"not ready within {START_S:g} s")

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            looked_at = loop.time()
            await asyncio.sleep(PING_S)
            is_late = loop.time() - looked_at > 2 * PING_S
            for host in self.hosts:
                if is_late:
                    host.forgive()
                host.ping()


def _load(host: SharedHost) -> int:
    return host.load


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
