"""The event loop of an executor process: runs the executions its agent sends, and tells how each ended."""

from __future__ import annotations

import asyncio
import importlib
import math
import os
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from crawlfleet.execution.budget.granted_gate import GrantedGate
from crawlfleet.execution.budget.host_gate import HostAway, HostUse
from crawlfleet.execution.budget.quota_meter import Meter, OverQuota
from crawlfleet.execution.crawl.fetch.proxy_pool import NODE_POOL, ProxyPool
from crawlfleet.execution.crawl.fetch.robots_cache import RobotsCache
from crawlfleet.execution.executors.inside.error_classes import classified
from crawlfleet.execution.executors.inside.output_stream import Stream, as_json
from crawlfleet.execution.executors.inside.parameter_check import Check, check_of
from crawlfleet.execution.executors.outside.supervisor import SILENCE_S
from crawlfleet.execution.executors.protocol import (
    TO_PROCESS,
    CancelExecution,
    Credit,
    Done,
    EarlierNotes,
    ExtendGrants,
    FetchEarlierNotes,
    FrameConnection,
    GrantsInEffect,
    HostNewsReport,
    HostUsageReport,
    Items,
    LogLines,
    MasterAnswer,
    MasterRequest,
    Ping,
    Pong,
    ProcessConfig,
    ProcessGrants,
    ProgressFigures,
    ProxyStates,
    QuotaSlice,
    Ready,
    SliceRequest,
    StartExecution,
    ToAgent,
    ToProcess,
    WarcRecords,
)
from crawlfleet.execution.sdk import TaskContext, TaskError, TryLater, call
from crawlfleet.model import limits
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.parking import ParkCause
from crawlfleet.model.proxy_health import ProxyHealth

_NOTHING = ProcessConfig({})
PROXY_STATES_S = 5.0
"""How often the agent is told how proxies do, if that has changed."""
_decode = msgspec.json.Decoder().decode


class Host:
    def __init__(self, *, is_alone: bool) -> None:
        self._is_alone = is_alone
        self._loop = asyncio.get_running_loop()
        self._frames = FrameConnection(TO_PROCESS, self._take, self._lose)
        self._serve = _NOTHING
        self._allow_hosts: frozenset[str] = frozenset()
        self._things: dict[str, tuple[object, Check]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, Stream] = {}
        self._meters: dict[int, Meter] = {}
        self._gate: GrantedGate | None = None
        self._robots = RobotsCache()
        self._proxy_pools: dict[str, ProxyPool] = {}
        self._recalls: dict[int, asyncio.Future[EarlierNotes]] = {}
        self._proxy_states: list[ProxyHealth] = []
        self._proxies_told_at = self._loop.time()
        self._heard_at = self._loop.time()
        self._ended = asyncio.Event()

    async def run(self, sock: socket.socket) -> None:
        """Until the agent is gone, or the one execution is over."""
        await self._loop.create_unix_connection(lambda: self._frames, sock=sock)
        self._frames.send(Ready())
        while not self._ended.is_set():
            try:
                async with asyncio.timeout(1.0):
                    await self._ended.wait()
            except TimeoutError:
                self._tell_of_proxies()
                # A process that is alone has a supervisor to do this, which user code cannot hold up.
                if not self._is_alone and self._loop.time() - self._heard_at > SILENCE_S:
                    return

    def _tell_of_proxies(self) -> None:
        if not self._proxy_pools or self._loop.time() - self._proxies_told_at < PROXY_STATES_S:
            return
        self._proxies_told_at = self._loop.time()
        states = [health for pool in self._proxy_pools.values() for health in pool.health() if health.uses]
        if states != self._proxy_states:
            self._proxy_states = states
            self._frames.send(ProxyStates(states))

    def _take(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        self._heard_at = self._loop.time()
        for message in messages:
            match message:
                case StartExecution():
                    self._tasks[message.execution] = self._loop.create_task(self._run(message))
                case CancelExecution():
                    self._cancel(message.execution)
                case Credit():
                    if (stream := self._streams.get(message.execution)) is not None:
                        stream.credit(message.size)
                case MasterAnswer():
                    if (stream := self._streams.get(message.execution)) is not None:
                        stream.exchanged(message.body)
                case Ping():
                    self._frames.send(Pong(message.number))
                case ProcessConfig():
                    self._be_told(message)
                case ProcessGrants() | ExtendGrants():
                    self._be_granted(message)
                case EarlierNotes():
                    if (waits := self._recalls.pop(message.execution, None)) is not None and not waits.done():
                        waits.set_result(message)
                case QuotaSlice():
                    if (meter := self._meters.get(message.execution)) is not None:
                        meter.take(message.number, message.pages, message.bytes, message.refusals)

    def _be_told(self, serve: ProcessConfig) -> None:
        self._serve = serve
        self._allow_hosts = frozenset(serve.allow_hosts)
        # Kept when only something else changed: a pool knows how its proxies do.
        for name in serve.proxy_pools.keys() - self._proxy_pools.keys():
            self._proxy_pools[name] = ProxyPool(f"{NODE_POOL}{name}", serve.proxy_pools[name])
        if serve.search_path:
            sys.path[:] = serve.search_path
        if serve.is_granted and self._gate is None:
            self._gate = GrantedGate(_Link(self._frames))

    def _be_granted(self, message: ProcessGrants | ExtendGrants) -> None:
        if self._gate is None:
            return
        if isinstance(message, ProcessGrants):
            self._gate.take(message.version, message.until, message.shares)
        else:
            self._gate.extend(message.until)

    def _cancel(self, execution: int) -> None:
        task = self._tasks.get(execution)
        if task is None:
            return  # over already, and its outcome is on the way
        task.cancel()
        if execution not in self._streams:
            # Cancelled before its first step it never runs, and could not say so itself.
            self._end(Done(execution, is_completed=False, is_cancelled=True))

    def _lose(self) -> None:
        self._ended.set()

    async def _run(self, start: StartExecution) -> None:
        stream = Stream(start.execution, self._send, self._serve.window_bytes)
        self._streams[start.execution] = stream
        if start.is_metered:
            self._meters[start.execution] = Meter(_MeterLink(self._frames, start.execution))
        try:
            done = await self._outcome(start, stream)
        except asyncio.CancelledError:
            done = Done(start.execution, is_completed=False, is_cancelled=True, metrics=stream.metrics())
        stream.close()
        del self._streams[start.execution]
        if (meter := self._meters.pop(start.execution, None)) is not None:
            done = msgspec.structs.replace(done, used=meter.used)
        self._end(done)

    def _end(self, done: Done) -> None:
        del self._tasks[done.execution]
        if self._is_alone and self._gate is not None:
            # There is no later.
            self._gate.tell()
        self._frames.send(done, len(done.result))
        if self._is_alone:
            self._say_goodbye()

    async def _outcome(self, start: StartExecution, stream: Stream) -> Done:
        try:
            thing, check = self._thing(start.task_type)
            context = self._context(start, stream)
            check(context.parameters)
            result = await call(thing, context)
            encoded = as_json(result)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            return _failed(start, stream, exc)
        if len(encoded) > limits.RESULT_BYTES:
            notice = {"truncated": True, "size_bytes": len(encoded), "limit_bytes": limits.RESULT_BYTES}
            encoded = as_json(notice)
        return Done(
            start.execution, is_completed=True, result=encoded, metrics=stream.metrics(), products=stream.last_products
        )

    def _context(self, start: StartExecution, stream: Stream) -> TaskContext:
        context = TaskContext(
            stream,
            task_id=task_text(start.task),
            execution_id=execution_text(start.execution),
            task_type=start.task_type,
            parameters=_decode(start.parameters),
            attempt=start.attempt,
            timeout_s=start.timeout_s,
            allow_hosts=self._allow_hosts,
            gate=self._gate,
            meter=self._meters.get(start.execution),
            master=stream,
            proxy_pools=self._proxy_pools,
        )
        context.robots = self._robots
        context.earlier = partial(self._earlier, start.execution)
        return context

    async def _earlier(self, execution: int, task: str) -> AsyncIterator[bytes]:
        """What an earlier task noted of its pages, in parts of JSON lines."""
        number, parts = 0, 1
        while number < parts:
            waits = self._recalls[execution] = self._loop.create_future()
            self._frames.send(FetchEarlierNotes(execution, number, task))
            found = await waits
            if found.problem:
                raise TaskError(f"since: {found.problem}", error="input", permanent=True)
            yield found.lines
            number, parts = number + 1, found.parts

    def _thing(self, task_type: str) -> tuple[object, Check]:
        """Loaded when it is first needed: most processes never run most types."""
        known = self._things.get(task_type)
        if known is None:
            module, _, name = self._serve.paths[task_type].partition(":")
            thing = getattr(importlib.import_module(module), name)
            known = self._things[task_type] = (thing, check_of(thing))
        return known

    def _send(self, message: Items | LogLines | WarcRecords | ProgressFigures | MasterRequest, size: int) -> None:
        self._frames.send(message, size)

    def _say_goodbye(self) -> None:
        for file in (sys.stdout, sys.stderr):
            try:
                file.flush()
            except (OSError, ValueError):
                pass
        # `_lose` follows when the agent has read it.
        self._frames.close_writing()


class _Link:
    """The gate's way to the agent."""

    def __init__(self, frames: FrameConnection) -> None:
        self._frames = frames

    def use(self, hosts: Sequence[HostUse]) -> None:
        self._frames.send(HostUsageReport(list(hosts)))

    def taken(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        self._frames.send(GrantsInEffect(version, list(pending), dict(used)))

    def news(self, host: str, kind: int, span_ms: int) -> None:
        self._frames.send(HostNewsReport(host, kind, span_ms))


class _MeterLink:
    """A meter's way to the agent."""

    def __init__(self, frames: FrameConnection, execution: int) -> None:
        self._frames = frames
        self._execution = execution

    def want(self, number: int, pages: int, size_bytes: int) -> None:
        self._frames.send(SliceRequest(self._execution, number, pages, size_bytes))


def _failed(start: StartExecution, stream: Stream, exc: BaseException) -> Done:
    said = classified(exc)
    if not said.is_expected:
        stream.log("".join(traceback.format_exception(exc)), "error")
    return Done(
        start.execution,
        is_completed=False,
        error=int(said.error),
        message=said.message[: limits.MESSAGE_CHARS],
        is_permanent=said.is_permanent,
        metrics=stream.metrics(),
        **_parked(exc),
    )


def _parked(exc: BaseException) -> dict[str, Any]:
    """What it waits for, of one that is to be parked."""
    match exc:
        case OverQuota() if exc.again_s > 0:
            cause, subject, after_s = ParkCause.DAILY_QUOTA, exc.project, exc.again_s
        # Only the gate speaks of hosts: of one that an executor asked by itself masters know nothing.
        case HostAway():
            cause, subject, after_s = ParkCause.HOST_BACKOFF, exc.host, exc.after_s
        case TryLater():
            cause, subject, after_s = ParkCause.LATER, "", exc.after_s
        case _:
            return {}
    # A moment at least: one that is not to be tried again at all would have said something else.
    return {"again_ms": max(1, math.ceil(after_s * 1000)), "cause": int(cause), "subject": subject}


async def serve(frames: int, *, is_alone: bool) -> None:
    sock = socket.socket(fileno=frames)
    sock.setblocking(False)
    await Host(is_alone=is_alone).run(sock)
    # Threads and tasks that user code left behind would hold up an orderly exit.
    os._exit(0)
