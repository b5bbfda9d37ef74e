"""The executor of an agent: built-in types run in shared processes, user types in an isolated process each."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.execution.executors.outside import linux_processes
from crawlfleet.execution.executors.outside.chunk_uploader import ChunkUploader
from crawlfleet.execution.executors.outside.isolated_process import IsolatedProcess
from crawlfleet.execution.executors.outside.running_execution import (
    ExecutionEnd,
    OnStart,
    RunningExecution,
    StreamRefused,
    run_uncancelled,
)
from crawlfleet.execution.executors.outside.shared_process import SharedProcess, SharedProcessPool
from crawlfleet.execution.executors.outside.traced_execution import run_traced
from crawlfleet.execution.executors.protocol import Done, ProcessConfig
from crawlfleet.execution.executors.registry import ExecutorEntry
from crawlfleet.execution.master_calls.proxy_reports import ProxyHealthReports
from crawlfleet.execution.outcome_validation import failed_outcome
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId
from crawlfleet.observe.tracing import Tracing
from crawlfleet.ports.executor import Stopped
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, ProgressBody

WATCH_S = 0.25
HEARTBEATS_EVERY = 4
LOG_FLUSH_S = 0.25
"""Timeout for uploading the log of a stopped execution: the time to stop is short."""
MEMORY_MB = 1_024
STREAMS_BYTES, WINDOW_MIN_BYTES, WINDOW_MAX_BYTES = 64 << 20, 32 << 10, 1 << 20


def ignore_start(_execution: ExecutionId, _took_s: float) -> None:
    """Default for an executor whose starts are not measured."""


class AgentExecutor:
    """Implements `ports.executor.Executor`; usable between `start` and `close`."""

    def __init__(
        self,
        entries: Mapping[str, ExecutorEntry],
        uploader: ChunkUploader,
        directory: Path,
        *,
        processes: int | None = None,
        search_path: Sequence[str] = (),
        allow_hosts: Sequence[str] = (),
        memory_mb: int = MEMORY_MB,
        slots: int = 64,
        on_start: OnStart = ignore_start,
        grants: HostGrants | None = None,
        slices: QuotaSlices | None = None,
        proxy_pools: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.proxies = ProxyHealthReports()
        self._entries = entries
        self._uploader = uploader
        self.tracing: Tracing | None = None
        """Where the spans of executions are sent; None while traces are off."""
        self._directory = directory
        self._memory_bytes = memory_mb << 20
        # What may wait here for a master is bounded for the whole node.
        window_bytes = max(WINDOW_MIN_BYTES, min(WINDOW_MAX_BYTES, STREAMS_BYTES // max(1, slots)))
        paths = {name: entry.path for name, entry in entries.items()}
        self._node_allow_hosts = frozenset(allow_hosts)
        self._grants = grants
        self._slices = slices
        is_granted = grants is not None
        pools = self._pools = dict(proxy_pools or {})
        # Only for built-in types: a user's own code has no business with their passwords.
        self._config = ProcessConfig(paths, list(search_path), list(allow_hosts), window_bytes, is_granted)
        built_in = {name: entry.path for name, entry in entries.items() if entry.is_builtin}
        shared = ProcessConfig(built_in, [], list(allow_hosts), window_bytes, is_granted, pools)
        self._shared = SharedProcessPool(max(1, processes or usable_cores()), shared, grants, self.proxies)
        self._on_start = on_start
        self._progress: dict[int, bytes] = {}
        self._isolated: dict[asyncio.Task[None], IsolatedProcess] = {}
        self._watcher: asyncio.Task[None] | None = None

    def allow_hosts(self, hosts: Sequence[str]) -> None:
        """Set the private hosts that new executions may visit, beside the node's own; running ones keep theirs."""
        union = sorted(self._node_allow_hosts.union(hosts))
        self._config = msgspec.structs.replace(self._config, allow_hosts=union)
        self._shared.allow_hosts(union)

    def pop_progress(self) -> list[ProgressBody]:
        """Progress of running executions since the last call, as much as one sync carries."""
        reported = list(islice(self._progress.items(), limits.PROGRESS_PER_SYNC))
        for execution, _ in reported:
            del self._progress[execution]
        return [ProgressBody(execution, msgspec.Raw(figures)) for execution, figures in reported]

    async def start(self) -> None:
        # What a killed agent could not remove.
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True, mode=0o700)
        self._shared.start()
        self._watcher = asyncio.create_task(self._watch_isolated(), name="alone-watch")

    async def close(self) -> None:
        """Kill all processes. A `run` that still waits ends with a lost process."""
        for process in self._isolated.values():
            process.kill("its agent ended")
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._shared.close()
        await asyncio.gather(*self._isolated)

    @property
    def shared_processes(self) -> Sequence[SharedProcess]:
        return self._shared.processes

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        entry = self._entries.get(assignment.task_type)
        if entry is None:
            return failed_outcome(assignment, f"this node has no executor for {assignment.task_type}")
        run = self._run_shared if entry.is_builtin and not assignment.is_alone else self._run_isolated
        if self.tracing is None:
            return await run(self._make_execution(assignment))
        return await run_traced(self.tracing, assignment, run, self._make_execution)

    def _make_execution(self, assignment: AssignmentBody, traceparent: str = "") -> RunningExecution:
        return RunningExecution(assignment, self._uploader, self._progress.__setitem__, self._slices, traceparent)

    async def _run_shared(self, execution: RunningExecution) -> OutcomeBody:
        assignment = execution.assignment
        handed_at = time.monotonic()
        process = await self._shared.wait_for_least_busy()
        if process is None:
            return OutcomeBody(assignment.task, assignment.execution, End.RETURNED, message="its agent ended")
        process.start_execution(execution)
        self._on_start(assignment.execution, time.monotonic() - handed_at)
        try:
            execution_end = await execution.ended
            if isinstance(execution_end, StreamRefused):
                await run_uncancelled(process.stop_execution(execution))
            return await execution.build_outcome(execution_end)
        except asyncio.CancelledError:
            await run_uncancelled(process.stop_execution(execution))
            return await self._cancelled_outcome(execution)

    async def _run_isolated(self, execution: RunningExecution) -> OutcomeBody:
        assignment = execution.assignment
        memory_bytes = max(self._memory_bytes, assignment.memory_mb << 20)
        is_builtin = self._entries[assignment.task_type].is_builtin
        config = msgspec.structs.replace(self._config, proxy_pools=self._pools) if is_builtin else self._config
        process = IsolatedProcess(execution, config, self._directory, memory_bytes, self._on_start, self._grants)
        task = asyncio.create_task(process.run(), name=f"alone-{assignment.execution}")
        self._isolated[task] = process
        task.add_done_callback(self._isolated.pop)
        try:
            execution_end = await execution.ended
            if isinstance(execution_end, StreamRefused):
                process.stop()
            await asyncio.shield(task)
            return await execution.build_outcome(execution_end)
        except asyncio.CancelledError:
            process.stop()
            await run_uncancelled(_wait_for_task(task))
            return await self._cancelled_outcome(execution)

    async def _cancelled_outcome(self, execution: RunningExecution) -> OutcomeBody:
        """The outcome of an execution that had completed when it was cancelled, if its upload is complete.

        Raises Stopped for all others.
        """
        execution_end: ExecutionEnd | None = (
            execution.ended.result() if execution.ended.done() and not execution.ended.cancelled() else None
        )
        if isinstance(execution_end, Done) and execution_end.is_completed and not execution.has_upload:
            return await execution.build_outcome(execution_end)
        raise Stopped(await run_uncancelled(execution.flush_log(LOG_FLUSH_S)), execution.used)

    async def _watch_isolated(self) -> None:
        """Check the limits of isolated processes, and send heartbeats to their supervisors."""
        turn = 0
        while True:
            await asyncio.sleep(WATCH_S)
            turn += 1
            if not self._isolated:
                continue
            table = linux_processes.ProcessTable()
            for process in list(self._isolated.values()):
                process.check_limits(table)
                if turn % HEARTBEATS_EVERY == 0:
                    process.send_heartbeat()


async def _wait_for_task(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))
