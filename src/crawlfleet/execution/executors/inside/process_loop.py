"""The event loop of an executor process: runs the executions its agent sends, and reports how each ended."""

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
from crawlfleet.execution.budget.host_gate import HostAway, HostUsage
from crawlfleet.execution.budget.quota_meter import OverQuota, QuotaMeter
from crawlfleet.execution.executors.inside.error_classes import classify_error
from crawlfleet.execution.executors.inside.output_stream import OutputStream, encode_json
from crawlfleet.execution.executors.inside.parameter_check import Check, build_check
from crawlfleet.execution.executors.outside.supervisor import SILENCE_S
from crawlfleet.execution.executors.protocol import (
    TO_PROCESS,
    CancelExecution,
    Credit,
    Done,
    EarlierNotes,
    ExtendGrants,
    FetchEarlierNotes,
    FetchSpans,
    FrameConnection,
    GrantsInEffect,
    HostNoteReport,
    HostUsageReport,
    MasterAnswer,
    Ping,
    Pong,
    ProcessConfig,
    ProcessGrants,
    ProxyStates,
    QuotaSlice,
    Ready,
    SliceRequest,
    StartExecution,
    ToAgent,
    ToProcess,
)
from crawlfleet.execution.process_state.fetch_trace import begin_fetch_trace
from crawlfleet.execution.process_state.proxy_pool import NODE_POOL, ProxyPool
from crawlfleet.execution.process_state.robots_cache import RobotsCache
from crawlfleet.execution.sdk import TaskContext, TaskError, TryLater, run_executor
from crawlfleet.model import limits
from crawlfleet.model.execution import ParkCause
from crawlfleet.model.ids import execution_text, task_text
from crawlfleet.model.proxy_health import ProxyHealth

_EMPTY_CONFIG = ProcessConfig({})
PROXY_REPORT_S = 5.0
"""How often changed proxy health is reported to the agent."""
_decode = msgspec.json.Decoder().decode


class ProcessLoop:
    """The loop of one executor process: its executions, and its connection to the agent."""

    def __init__(self, *, is_isolated: bool) -> None:
        self._is_isolated = is_isolated
        self._loop = asyncio.get_running_loop()
        self._frames = FrameConnection(TO_PROCESS, self._handle_messages, self._on_disconnect)
        self._config = _EMPTY_CONFIG
        self._allow_hosts: frozenset[str] = frozenset()
        self._executors: dict[str, tuple[object, Check]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, OutputStream] = {}
        self._meters: dict[int, QuotaMeter] = {}
        self._gate: GrantedGate | None = None
        self._robots = RobotsCache()
        self._proxy_pools: dict[str, ProxyPool] = {}
        self._note_requests: dict[int, asyncio.Future[EarlierNotes]] = {}
        self._proxy_states: list[ProxyHealth] = []
        self._proxies_reported_at = self._loop.time()
        self._message_at = self._loop.time()
        self._ended = asyncio.Event()

    async def run(self, sock: socket.socket) -> None:
        """Serve the agent until it is gone, or the one execution of an isolated process is over."""
        await self._loop.create_unix_connection(lambda: self._frames, sock=sock)
        self._frames.send(Ready())
        while not self._ended.is_set():
            try:
                async with asyncio.timeout(1.0):
                    await self._ended.wait()
            except TimeoutError:
                self._report_proxies()
                # An isolated process has a supervisor to do this, which user code cannot block.
                if not self._is_isolated and self._loop.time() - self._message_at > SILENCE_S:
                    return

    def _report_proxies(self) -> None:
        if not self._proxy_pools or self._loop.time() - self._proxies_reported_at < PROXY_REPORT_S:
            return
        self._proxies_reported_at = self._loop.time()
        states = [health for pool in self._proxy_pools.values() for health in pool.report_health() if health.uses]
        if states != self._proxy_states:
            self._proxy_states = states
            self._frames.send(ProxyStates(states))

    def _handle_messages(self, messages: list[ToAgent] | list[ToProcess]) -> None:
        self._message_at = self._loop.time()
        for message in messages:
            match message:
                case StartExecution():
                    self._tasks[message.execution] = self._loop.create_task(self._run_execution(message))
                case CancelExecution():
                    self._cancel_execution(message.execution)
                case Credit():
                    if (stream := self._streams.get(message.execution)) is not None:
                        stream.add_credit(message.size)
                case MasterAnswer():
                    if (stream := self._streams.get(message.execution)) is not None:
                        stream.set_answer(message.body)
                case Ping():
                    self._frames.send(Pong(message.number))
                case ProcessConfig():
                    self._apply_config(message)
                case ProcessGrants() | ExtendGrants():
                    self._apply_grants(message)
                case EarlierNotes():
                    if (waiter := self._note_requests.pop(message.execution, None)) is not None and not waiter.done():
                        waiter.set_result(message)
                case QuotaSlice():
                    if (meter := self._meters.get(message.execution)) is not None:
                        meter.apply_slice(message.number, message.pages, message.bytes, message.refusals)

    def _apply_config(self, config: ProcessConfig) -> None:
        self._config = config
        self._allow_hosts = frozenset(config.allow_hosts)
        # Existing pools are kept: a pool knows the health of its proxies.
        for name in config.proxy_pools.keys() - self._proxy_pools.keys():
            self._proxy_pools[name] = ProxyPool(f"{NODE_POOL}{name}", config.proxy_pools[name])
        if config.search_path:
            sys.path[:] = config.search_path
        if config.is_granted and self._gate is None:
            self._gate = GrantedGate(_AgentGateLink(self._frames))

    def _apply_grants(self, message: ProcessGrants | ExtendGrants) -> None:
        if self._gate is None:
            return
        if isinstance(message, ProcessGrants):
            self._gate.apply_grants(message.version, message.until, message.shares)
        else:
            self._gate.extend_grants(message.until)

    def _cancel_execution(self, execution: int) -> None:
        task = self._tasks.get(execution)
        if task is None:
            return  # over already, and its outcome is on the way
        task.cancel()
        if execution not in self._streams:
            # Cancelled before its first step it never runs, and cannot report its end itself.
            self._send_done(Done(execution, is_completed=False, is_cancelled=True))

    def _on_disconnect(self) -> None:
        self._ended.set()

    async def _run_execution(self, start: StartExecution) -> None:
        stream = OutputStream(start.execution, self._frames.send, self._config.window_bytes)
        self._streams[start.execution] = stream
        if start.is_metered:
            self._meters[start.execution] = QuotaMeter(_AgentMeterLink(self._frames, start.execution))
        fetches = begin_fetch_trace() if start.traceparent else None
        if start.traceparent and self._is_isolated:
            # The process has this one execution, whose code may have spans of its own.
            os.environ["TRACEPARENT"] = start.traceparent
        try:
            done = await self._call_executor(start, stream)
        except asyncio.CancelledError:
            done = Done(start.execution, is_completed=False, is_cancelled=True, metrics=stream.encode_metrics())
        if fetches is not None and fetches.records:
            self._frames.send(FetchSpans(start.execution, fetches.records))
        stream.close()
        del self._streams[start.execution]
        if (meter := self._meters.pop(start.execution, None)) is not None:
            done = msgspec.structs.replace(done, used=meter.used)
        self._send_done(done)

    def _send_done(self, done: Done) -> None:
        del self._tasks[done.execution]
        if self._is_isolated and self._gate is not None:
            # The last chance: the process ends.
            self._gate.send_report()
        self._frames.send(done, len(done.result))
        if self._is_isolated:
            self._close_connection()

    async def _call_executor(self, start: StartExecution, stream: OutputStream) -> Done:
        try:
            executor, check = self._load_executor(start.task_type)
            context = self._build_context(start, stream)
            check(context.parameters)
            result = await run_executor(executor, context)
            encoded = encode_json(result)
        except asyncio.CancelledError:
            raise
        except BaseException as exc:
            return _failed_done(start, stream, exc)
        if len(encoded) > limits.RESULT_BYTES:
            notice = {"truncated": True, "size_bytes": len(encoded), "limit_bytes": limits.RESULT_BYTES}
            encoded = encode_json(notice)
        return Done(
            start.execution,
            is_completed=True,
            result=encoded,
            metrics=stream.encode_metrics(),
            products=stream.last_products,
        )

    def _build_context(self, start: StartExecution, stream: OutputStream) -> TaskContext:
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
        context.earlier = partial(self._read_earlier_notes, start.execution)
        return context

    async def _read_earlier_notes(self, execution: int, task: str) -> AsyncIterator[bytes]:
        """Read the page notes of an earlier task from a master, in parts of JSON lines."""
        number, parts = 0, 1
        while number < parts:
            waiter = self._note_requests[execution] = self._loop.create_future()
            self._frames.send(FetchEarlierNotes(execution, number, task))
            notes = await waiter
            if notes.problem:
                raise TaskError(f"since: {notes.problem}", error="input", permanent=True)
            yield notes.lines
            number, parts = number + 1, notes.parts

    def _load_executor(self, task_type: str) -> tuple[object, Check]:
        """The executor of a task type and the check of its parameters, loaded on first use."""
        loaded = self._executors.get(task_type)
        if loaded is None:
            module, _, name = self._config.paths[task_type].partition(":")
            executor = getattr(importlib.import_module(module), name)
            loaded = self._executors[task_type] = (executor, build_check(executor))
        return loaded

    def _close_connection(self) -> None:
        for file in (sys.stdout, sys.stderr):
            try:
                file.flush()
            except (OSError, ValueError):
                pass
        # `_on_disconnect` follows when the agent has read it.
        self._frames.close_writing()


class _AgentGateLink:
    """Sends the messages of the host gate to the agent."""

    def __init__(self, frames: FrameConnection) -> None:
        self._frames = frames

    def report_usage(self, hosts: Sequence[HostUsage]) -> None:
        self._frames.send(HostUsageReport(list(hosts)))

    def acknowledge_grants(self, version: int, pending: Sequence[str], used: Mapping[str, int]) -> None:
        self._frames.send(GrantsInEffect(version, list(pending), dict(used)))

    def report_host_note(self, host: str, kind: int, span_ms: int) -> None:
        self._frames.send(HostNoteReport(host, kind, span_ms))


class _AgentMeterLink:
    """Sends the slice requests of a quota meter to the agent."""

    def __init__(self, frames: FrameConnection, execution: int) -> None:
        self._frames = frames
        self._execution = execution

    def request_slice(self, number: int, pages: int, size_bytes: int) -> None:
        self._frames.send(SliceRequest(self._execution, number, pages, size_bytes))


def _failed_done(start: StartExecution, stream: OutputStream, exc: BaseException) -> Done:
    classified = classify_error(exc)
    if not classified.is_expected:
        stream.log("".join(traceback.format_exception(exc)), "error")
    return Done(
        start.execution,
        is_completed=False,
        error=int(classified.error),
        message=classified.message[: limits.MESSAGE_CHARS],
        is_permanent=classified.is_permanent,
        metrics=stream.encode_metrics(),
        **_parking_fields(exc),
    )


def _parking_fields(exc: BaseException) -> dict[str, Any]:
    """The fields of `Done` that park the task: delay, cause and subject; none when the failure does not park it."""
    match exc:
        case OverQuota() if exc.again_s > 0:
            cause, subject, after_s = ParkCause.DAILY_QUOTA, exc.project, exc.again_s
        # Only the gate raises it: masters know nothing of a host that an executor called by itself.
        case HostAway():
            cause, subject, after_s = ParkCause.HOST_BACKOFF, exc.host, exc.after_s
        case TryLater():
            cause, subject, after_s = ParkCause.LATER, "", exc.after_s
        case _:
            return {}
    # At least a millisecond: 0 would mean that the task is not parked.
    return {"again_ms": max(1, math.ceil(after_s * 1000)), "cause": int(cause), "subject": subject}


async def serve_agent(frames: int, *, is_isolated: bool) -> None:
    sock = socket.socket(fileno=frames)
    sock.setblocking(False)
    await ProcessLoop(is_isolated=is_isolated).run(sock)
    # Threads and tasks that user code left behind would hold up an orderly exit.
    os._exit(0)
