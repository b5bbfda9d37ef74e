"""An agent as a process: it joins, runs its executions in executor processes, and leaves in good order."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import aiohttp
import structlog

from crawlfleet.bootstrap.file_limit import raise_file_limit
from crawlfleet.bootstrap.gc_tuning import tune_collector
from crawlfleet.errors import ConfigError
from crawlfleet.execution.agent.agent import DRAIN_S, Agent, AgentSettings, Departure
from crawlfleet.execution.agent.events import AgentEvent
from crawlfleet.execution.agent.identity import Identity, lock_directory
from crawlfleet.execution.agent.machine_facts import Capability, MachineFacts, probe_machine
from crawlfleet.execution.agent.measurements import NodeMeasurements
from crawlfleet.execution.agent.registration import Joiner, RegisterRequest, own_address
from crawlfleet.execution.agent.sync.http_transport import HttpTransport
from crawlfleet.execution.agent.sync.masters import Masters
from crawlfleet.execution.budget.host_grants import HostGrants
from crawlfleet.execution.budget.quota_slices import QuotaSlices
from crawlfleet.execution.executors.outside.agent_executor import MEMORY_MB, AgentExecutor
from crawlfleet.execution.executors.outside.chunk_uploader import ChunkUploader
from crawlfleet.execution.executors.outside.spawn import search_path
from crawlfleet.execution.executors.registry import ExecutorEntry, scan_entries
from crawlfleet.execution.master_calls.http_calls import normalise_master_url, open_http_session
from crawlfleet.execution.master_calls.master_directory import MasterDirectory, MasterFile
from crawlfleet.execution.master_calls.proxy_reports import report_proxies
from crawlfleet.model import limits
from crawlfleet.observe.log_level import PROCESS_LEVEL
from crawlfleet.observe.tracing import Tracing, start_tracing
from crawlfleet.ports.clock import SystemClock
from crawlfleet.version import __version__

log = structlog.get_logger()

EXIT_CONFIG = 2
EXIT_REMOVED = 3
HURRY_S = 2.0
_OF_EACH_EXECUTION = frozenset({AgentEvent.EXECUTION_STARTED, AgentEvent.EXECUTION_ENDED})
FAILURES_EVERY_S = 5.0
MAX_PREFETCH = 256
"""Maximum number of executions that wait on the agent. An execution that arrives shortly before another one ends waits
here for its slot instead of going back."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    masters: list[str]
    data_dir: Path
    enrol_token: str | None = None
    executors: list[str] = field(default_factory=list)
    device_id: str | None = None
    name: str = ""
    description: str = ""
    port: int = 0
    region: str = ""
    egress_address: str = ""
    node_type: str = "standard"
    cluster: str = "default"
    capabilities: Mapping[str, Capability] = field(default_factory=dict)
    slots: int = 16
    weight: float = 1.0
    resources: Mapping[str, float] = field(default_factory=dict)
    """Resources that the node offers, instead of those that the agent detects."""
    allow_hosts: list[str] = field(default_factory=list)
    proxy_pools: Mapping[str, list[str]] = field(default_factory=dict)
    ca_file: Path | None = None
    memory_limit_mb: int | None = None
    """Memory limit of one execution of a user's task type."""
    drain_s: float = DRAIN_S
    """Time in seconds that running work may take to end when the agent is asked to leave."""


async def run_worker(options: WorkerOptions) -> int:
    """Run the agent until it is asked to leave or its node is removed, and return the exit code of the process."""
    raise_file_limit()
    try:
        with lock_directory(options.data_dir):
            async with AsyncExitStack() as stack:
                return await _Worker(options).run(stack)
    except ConfigError as exc:
        log.error("not_started", error=str(exc))  # noqa: TRY400 - a mistake of the user: a traceback is of no use
        return EXIT_CONFIG


class _Worker:
    def __init__(self, options: WorkerOptions) -> None:
        if not 1 <= options.slots <= limits.SLOTS_MAX:
            raise ConfigError(f"slots: 1 to {limits.SLOTS_MAX}, not {options.slots}")
        if not options.masters:
            raise ConfigError("masters: the address of at least one master is needed")
        self._options = options
        configured = [normalise_master_url(url) for url in options.masters]
        file = MasterFile(options.data_dir)
        self._masters = MasterDirectory(configured, file.load(configured), file.save)
        self._clock, self._rng = SystemClock(), Random()
        self._measure = NodeMeasurements(self._clock, options.data_dir)
        self._agent: Agent | None = None
        self._is_leaving = False
        self._failure_logged_at = float("-inf")
        self._tracing: Tracing | None = None
        self._starting: asyncio.Task[Identity | None] | None = None

    async def run(self, stack: AsyncExitStack) -> int:
        options = self._options
        # A process of its own imports the users' modules, and programs are probed, all while nothing waits for the
        # agent.
        path = search_path(options.executors)
        entries, probed = await asyncio.gather(
            asyncio.to_thread(scan_entries, options.executors, path),
            asyncio.to_thread(probe_machine, options.capabilities, options.resources),
        )
        self._tracing = await asyncio.to_thread(
            start_tracing, "crawlfleet-worker", options.name or platform.node(), __version__
        )
        if self._tracing is not None:
            stack.push_async_callback(asyncio.to_thread, self._tracing.close)
        session = await stack.enter_async_context(open_http_session(options.ca_file))
        joiner = Joiner(
            options.data_dir,
            self._masters.configured,
            session,
            self._rng,
            options.enrol_token,
            reported_masters=self._masters.urls,
        )
        registration = self._make_registration(entries, probed)
        stack.enter_context(self._handle_signals())
        identity = await self._unless_leaving(joiner.join(registration))
        while identity is not None:
            departure = await self._run_agent(identity, entries, path, session)
            if departure is not Departure.REMOVED:
                return 0
            identity = await self._unless_leaving(joiner.join_anew(registration))
            if identity is None and not self._is_leaving:
                log.error("removed", hint=f"to join again as a new node, remove {options.data_dir}/node.json")
                return EXIT_REMOVED
        return 0

    async def _unless_leaving(self, joining: Coroutine[None, None, Identity | None]) -> Identity | None:
        """Wait for the join; returns None when the agent was asked to leave before it had joined."""
        self._starting = asyncio.create_task(joining)
        try:
            return await self._starting
        except asyncio.CancelledError:
            if not self._is_leaving:
                raise
            return None
        finally:
            self._starting = None

    async def _run_agent(
        self, identity: Identity, entries: Mapping[str, ExecutorEntry], path: list[str], session: aiohttp.ClientSession
    ) -> Departure:
        options = self._options
        uploads = ChunkUploader(session, self._masters, identity.secret, self._rng)
        grants, slices = HostGrants(self._clock), QuotaSlices()
        executor = AgentExecutor(
            entries,
            uploads,
            options.data_dir / "work",
            search_path=path,
            allow_hosts=options.allow_hosts,
            memory_mb=options.memory_limit_mb or MEMORY_MB,
            slots=options.slots,
            on_start=self._measure.note_start,
            grants=grants,
            slices=slices,
            proxy_pools=options.proxy_pools,
        )
        executor.tracing = self._tracing
        settings = AgentSettings(
            node=identity.node,
            secret=identity.secret,
            outbox_directory=options.data_dir / "outbox",
            slots=options.slots,
            task_types=sorted(entries),
            prefetch=min(options.slots, MAX_PREFETCH),
        )
        self._agent = Agent(
            settings,
            Masters(
                self._masters,
                lambda url: HttpTransport(url, identity.node, identity.secret, session),
                self._rng,
            ),
            executor,
            clock=self._clock,
            rng=self._rng,
            measure=self._measure,
            on_event=self._handle_event,
            allow_hosts=executor.allow_hosts,
            set_log_level=self._set_log_level,
            progress=executor.pop_progress,
            grants=grants,
            slices=slices,
        )
        if self._is_leaving:
            self._agent.request_leave(0.0)
        beside = [
            asyncio.create_task(self._measure.watch_gpu()),
            asyncio.create_task(report_proxies(executor.proxies, uploads, identity.node)),
        ]
        await executor.start()
        tune_collector()
        log.info(
            "agent_started", node=identity.node_id, masters=self._masters.urls, slots=options.slots, pid=os.getpid()
        )
        try:
            return await self._agent.run()
        finally:
            self._agent = None
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await executor.close()
            log.info("agent_stopped", node=identity.node_id)

    def _make_registration(self, entries: Mapping[str, ExecutorEntry], probed: MachineFacts) -> RegisterRequest:
        options = self._options
        return RegisterRequest(
            name=options.name or platform.node() or "node",
            slots=options.slots,
            task_types={name: entry.schema for name, entry in sorted(entries.items())},
            capabilities=probed.capabilities,
            resources=probed.resources,
            cluster=options.cluster,
            node_type=options.node_type,
            region=options.region,
            weight=options.weight,
            device_id=options.device_id,
            ip_address=own_address(self._masters.configured[0]),
            machine_id=probed.machine,
            egress_address=options.egress_address,
            description=options.description,
            port=options.port,
        )

    def _handle_leave_signal(self) -> None:
        """Leave: the first signal lets work end, and the second one hands it back at once."""
        if self._starting is not None:
            self._starting.cancel()
        if self._agent is not None:
            self._agent.request_leave(0.0 if self._is_leaving else self._options.drain_s)
            within_s = HURRY_S if self._is_leaving else self._options.drain_s
            log.info("leaving", within_s=within_s)
        self._is_leaving = True

    def _handle_event(self, name: str, data: dict[str, object]) -> None:
        self._measure.handle_event(name, data)
        if name in _OF_EACH_EXECUTION:
            return
        match name:
            case AgentEvent.SESSION_OPENED:
                log.info("session_opened", session=data["session"], lease_s=data["lease_s"])
            case AgentEvent.SESSION_ENDED | AgentEvent.LEASE_LAPSED | AgentEvent.OUTBOX_FAILED:
                log.warning(str(name), **{key: value for key, value in data.items() if key != "executions"})
            case AgentEvent.OUTCOME_CUT:
                log.warning(str(name), **data)
            case AgentEvent.CALL_FAILED:
                self._log_failure(data)
            case AgentEvent.DRAIN_BEGAN | AgentEvent.DRAIN_ENDED | AgentEvent.LEFT:
                log.info(str(name), **data)

    @staticmethod
    def _set_log_level(level: str | None) -> None:
        before = PROCESS_LEVEL.effective
        PROCESS_LEVEL.set_shared(level)
        if PROCESS_LEVEL.effective != before:
            log.warning("log_level_changed", after=PROCESS_LEVEL.effective, before=before)

    def _log_failure(self, data: dict[str, object]) -> None:
        """Log the first failed call, and later ones at intervals: a master that is unavailable for long must not fill
        the log."""
        now = self._clock.monotonic()
        if now - self._failure_logged_at >= FAILURES_EVERY_S:
            self._failure_logged_at = now
            log.warning("call_failed", call=data["call"], master=data["master"], error=data["error"])

    @contextmanager
    def _handle_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._handle_leave_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
