"""Runs executions in executor processes: built-in types share a few, a user's execution has one of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from crawlfleet.execution.agent.sync.proxy_reports import ProxyHealthReports
from crawlfleet.execution.agent.work.host_grants import HostGrants
from crawlfleet.execution.agent.work.outcome_validation import failed_outcome
from crawlfleet.execution.agent.work.quota_slices import QuotaSlices
from crawlfleet.execution.executors.outside import linux
from crawlfleet.execution.executors.outside.chunk_uploader import Uploads
from crawlfleet.execution.executors.outside.isolated_process import AloneHost
from crawlfleet.execution.executors.outside.running_execution import Ended, Flight, OnStart, Refused, unhurried
from crawlfleet.execution.executors.outside.shared_process import SharedHost, SharedHosts
from crawlfleet.execution.executors.protocol import Done, ProcessConfig
from crawlfleet.execution.executors.registry import ExecutorEntry
from crawlfleet.model import limits
from crawlfleet.model.execution import End
from crawlfleet.model.ids import ExecutionId
from crawlfleet.ports.executor import Stopped
from crawlfleet.wire.sync import AssignmentBody, OutcomeBody, ProgressBody

WATCH_S = 0.25
HEARTBEATS_EVERY = 4
LAST_WORDS_S = 0.25
"""For the log of an execution that was stopped: the time to stop is short."""
MEMORY_MB = 1_024
STREAMS_BYTES, WINDOW_MIN_BYTES, WINDOW_MAX_BYTES = 64 << 20, 32 << 10, 1 << 20


def unheard(_execution: ExecutionId, _took_s: float) -> None:
    """For an executor that nobody measures."""


class ProcessExecutor:
    """Implements `ports.executor.Executor`. Between `start` and `close`."""

    def __init__(
        self,
        entries: Mapping[str, ExecutorEntry],
        uploads: Uploads,
        directory: Path,
        *,
        hosts: int | None = None,
        search_path: Sequence[str] = (),
        allow_hosts: Sequence[str] = (),
        memory_mb: int = MEMORY_MB,
        slots: int = 64,
        on_start: OnStart = unheard,
        grants: HostGrants | None = None,
        slices: QuotaSlices | None = None,
        proxy_pools: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.proxies = ProxyHealthReports()
        self._entries = entries
        self._uploads = uploads
        self._directory = directory
        self._memory_bytes = memory_mb << 20
        # What may wait here for a master is bounded for the whole node.
        window_bytes = max(WINDOW_MIN_BYTES, min(WINDOW_MAX_BYTES, STREAMS_BYTES // max(1, slots)))
        paths = {name: entry.path for name, entry in entries.items()}
        self._own_hosts = frozenset(allow_hosts)
        self._grants = grants
        self._slices = slices
        is_granted = grants is not None
        pools = self._pools = dict(proxy_pools or {})
        # Only for built-in types: a user's own code has no business with their passwords.
        self._serve = ProcessConfig(paths, list(search_path), list(allow_hosts), window_bytes, is_granted)
        built_in = {name: entry.path for name, entry in entries.items() if entry.is_builtin}
        shared = ProcessConfig(built_in, [], list(allow_hosts), window_bytes, is_granted, pools)
        self._shared = SharedHosts(max(1, hosts or usable_cores()), shared, grants, self.proxies)
        self._on_start = on_start
        self._figures: dict[int, bytes] = {}
        self._alone: dict[asyncio.Task[None], AloneHost] = {}
        self._watcher: asyncio.Task[None] | None = None

    def allow_hosts(self, hosts: Sequence[str]) -> None:
        """Hosts that executions may visit from now on, beside the node's own; those that run keep what they have."""
        union = sorted(self._own_hosts.union(hosts))
        self._serve = msgspec.structs.replace(self._serve, allow_hosts=union)
        self._shared.allow_hosts(union)

    def progress(self) -> list[ProgressBody]:
        """What running executions told of it since it was asked for last, as much as one call carries."""
        told = list(islice(self._figures.items(), limits.PROGRESS_PER_SYNC))
        for execution, _ in told:
            del self._figures[execution]
        return [ProgressBody(execution, msgspec.Raw(figures)) for execution, figures in told]

    async def start(self) -> None:
        # What a killed agent could not remove.
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True, mode=0o700)
        self._shared.begin()
        self._watcher = asyncio.create_task(self._watch(), name="alone-watch")

    async def close(self) -> None:
        """Nothing runs any more. Whoever still waits in `run` is told that the process is lost."""
        for host in self._alone.values():
            host.kill("its agent ended")
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._shared.close()
        await asyncio.gather(*self._alone)

    @property
    def shared_hosts(self) -> Sequence[SharedHost]:
        return self._shared.hosts

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        entry = self._entries.get(assignment.task_type)
        if entry is None:
            return failed_outcome(assignment, f"this node has no executor for {assignment.task_type}")
        if entry.is_builtin and not assignment.is_alone:
            return await self._run_shared(assignment)
        return await self._run_alone(assignment)

    async def _run_shared(self, assignment: AssignmentBody) -> OutcomeBody:
        began_at = time.monotonic()
        host = await self._shared.least_busy()
        if host is None:
            return OutcomeBody(assignment.task, assignment.execution, End.RETURNED, message="its agent ended")
        flight = Flight(assignment, self._uploads, self._figures.__setitem__, self._slices)
        host.launch(flight)
        self._on_start(assignment.execution, time.monotonic() - began_at)
        try:
            ended = await flight.ended
            if isinstance(ended, Refused):
                await unhurried(host.stop(flight))
            return await flight.outcome(ended)
        except asyncio.CancelledError:
            await unhurried(host.stop(flight))
            return await self._of_cancelled(flight)

    async def _run_alone(self, assignment: AssignmentBody) -> OutcomeBody:
        flight = Flight(assignment, self._uploads, self._figures.__setitem__, self._slices)
        memory_bytes = max(self._memory_bytes, assignment.memory_mb << 20)
        is_builtin = self._entries[assignment.task_type].is_builtin
        serve = msgspec.structs.replace(self._serve, proxy_pools=self._pools) if is_builtin else self._serve
        host = AloneHost(flight, serve, self._directory, memory_bytes, self._on_start, self._grants)
        life = asyncio.create_task(host.run(), name=f"alone-{assignment.execution}")
        self._alone[life] = host
        life.add_done_callback(self._alone.pop)
        try:
            ended = await flight.ended
            if isinstance(ended, Refused):
                host.stop()
            await asyncio.shield(life)
            return await flight.outcome(ended)
        except asyncio.CancelledError:
            host.stop()
            await unhurried(_ended(life))
            return await self._of_cancelled(flight)

    async def _of_cancelled(self, flight: Flight) -> OutcomeBody:
        """What was complete when the order to stop came is complete, if everything of it is with a master by now."""
        said: Ended | None = flight.ended.result() if flight.ended.done() and not flight.ended.cancelled() else None
        if isinstance(said, Done) and said.is_completed and not flight.has_upload:
            return await flight.outcome(said)
        raise Stopped(await unhurried(flight.last_words(LAST_WORDS_S)), flight.used)

    async def _watch(self) -> None:
        """Memory of users' processes, and the sign of life their supervisors wait for."""
        turn = 0
        while True:
            await asyncio.sleep(WATCH_S)
            turn += 1
            if not self._alone:
                continue
            processes = linux.Processes()
            for host in list(self._alone.values()):
                host.watch(processes)
                if turn % HEARTBEATS_EVERY == 0:
                    host.heartbeat()


async def _ended(life: asyncio.Task[None]) -> None:
    await asyncio.wait({life})


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))
