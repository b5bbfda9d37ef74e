"""A master: the services and the loops over a store and a broker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import structlog

from crawlfleet.bootstrap.alerts.alert_parts import AlertInputs, AlertParts
from crawlfleet.control.admin.audit import Audit
from crawlfleet.control.admin.cluster_config import Configure
from crawlfleet.control.admin.figures import Figures
from crawlfleet.control.admin.hosts import Hosts
from crawlfleet.control.admin.projects import Projects
from crawlfleet.control.admin.queues import Pause
from crawlfleet.control.admin.tokens import Tokens
from crawlfleet.control.alerts.alert_options import AlertOptions
from crawlfleet.control.composites.flows import Flows
from crawlfleet.control.composites.groups import Groups
from crawlfleet.control.composites.schedules import Schedules
from crawlfleet.control.explain.doctor.doctor import ReadFiles
from crawlfleet.control.explain.task import Why
from crawlfleet.control.leader.cluster_view import ClusterView
from crawlfleet.control.leader.evidence_cache import EvidenceCache
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.placement_context import PlacementContext
from crawlfleet.control.leader.queue_ordering import OrderedBroker, QueueOrders
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.leader.strategy_registry import StrategyRegistry
from crawlfleet.control.loops.base import Loop
from crawlfleet.control.loops.counter_aggregator import CounterAggregator
from crawlfleet.control.loops.dispatcher import Dispatcher
from crawlfleet.control.loops.evidence_aggregator import EvidenceAggregator
from crawlfleet.control.loops.gauge_sampler import GaugeSampler
from crawlfleet.control.loops.granter import Granter
from crawlfleet.control.loops.host_stats_aggregator import HostStatsAggregator
from crawlfleet.control.loops.id_slot_keeper import AHEAD_MS, IdSlotKeeper
from crawlfleet.control.loops.leader import Leader
from crawlfleet.control.loops.log_level_keeper import LogLevelKeeper
from crawlfleet.control.loops.master_reporter import MasterReporter, ProbeProcess
from crawlfleet.control.loops.node_watcher import NodeWatcher
from crawlfleet.control.loops.preempter import Preempter
from crawlfleet.control.loops.pruner import Pruner
from crawlfleet.control.loops.reaper import Reaper
from crawlfleet.control.loops.reconciler import Reconciler
from crawlfleet.control.loops.relay import Relay
from crawlfleet.control.loops.scaler import Scaler
from crawlfleet.control.loops.schedule_firer import ScheduleFirer
from crawlfleet.control.loops.stager import Stager
from crawlfleet.control.loops.work_mover import WorkMover
from crawlfleet.control.nodes.heartbeat import Heartbeat, SimpleClients
from crawlfleet.control.nodes.node_changes import NodeChanges
from crawlfleet.control.nodes.open_session import OpenSession
from crawlfleet.control.nodes.register import Register
from crawlfleet.control.nodes.resource_allocation import ResourceAllocator
from crawlfleet.control.nodes.sync import Sync
from crawlfleet.control.support.master_roster import MasterRoster
from crawlfleet.control.support.session_counter import SessionCounter
from crawlfleet.control.tasks.admission import AdmissionControl, WaitingLimit
from crawlfleet.control.tasks.changes import TaskChanges
from crawlfleet.control.tasks.dead_letters import DeadLetters
from crawlfleet.control.tasks.finish import Finish
from crawlfleet.control.tasks.manual_assignment import AssignByHand
from crawlfleet.control.tasks.submit import Submit
from crawlfleet.control.tasks.task_types import Check, KnownTypes, TaskTypes, release_number
from crawlfleet.errors import Unavailable
from crawlfleet.model import limits
from crawlfleet.model.ids import IdFactory, IdSlot
from crawlfleet.model.installation.master import MasterFigures, MasterIdentity
from crawlfleet.model.installation.retention import Retention
from crawlfleet.observe.log_level import LogLevel
from crawlfleet.observe.metrics import ProcessMetrics
from crawlfleet.observe.tracing import Tracing
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.chunk_store import ChunkStore
from crawlfleet.ports.clock import Clock, SystemClock
from crawlfleet.ports.store import Store
from crawlfleet.scheduling.doctor.snapshot import FilePart
from crawlfleet.scheduling.nodes.node_faults import HostReach
from crawlfleet.scheduling.placement.lane_order import Ageing
from crawlfleet.scheduling.placement.strategies import StrategyFactory
from crawlfleet.version import __version__

RESIGN_S = 2.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MasterOptions:
    """The options of a master that a person may set."""

    waiting: WaitingLimit = field(default_factory=WaitingLimit)
    retention: Retention = field(default_factory=Retention)
    clusters: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the settings of `control.configure`, for clusters that do not set them."""
    simple: SimpleClients = field(default_factory=SimpleClients)
    strategies: Mapping[str, StrategyFactory] = field(default_factory=dict)
    """Strategies of users, by name."""
    checks: Mapping[str, Check] = field(default_factory=dict)
    """Checks of parameters by task type, for conditions that a schema cannot express."""
    alerts: AlertOptions = field(default_factory=AlertOptions)
    log_level: LogLevel = field(default_factory=LogLevel)
    """Level of the log that the master writes to."""
    tracing: Tracing | None = None
    """Where spans are sent; None while traces are off."""
    address: str = ""
    """URL under which nodes reach this master; empty where it has none to offer."""
    probe: ProbeProcess = MasterFigures
    """Measures the figures of the process that the master runs in."""
    read_files: ReadFiles = FilePart
    """Looks at the files and the address of the master."""
    task_timeout_s: int = limits.TIMEOUT_S_DEFAULT
    """Timeout of tasks for which neither they nor their cluster set one."""


class Master:
    chunks: ChunkStore
    """Store of items and logs; used only by a master that serves nodes."""

    def __init__(
        self,
        *,
        name: str,
        boot: int,
        store: Store,
        broker: Broker,
        clock: Clock,
        rng: Random,
        schemas: Mapping[str, Mapping[str, Any]],
        window: int = 2_000,
        make_secret: Callable[[], str] = lambda: secrets.token_hex(32),
        options: MasterOptions | None = None,
        chunks: ChunkStore | None = None,
        id_slot: IdSlot | None = None,
    ) -> None:
        self.name = f"{name}#{boot}"
        """Name of this start of the master: a later start under the same name is a different master."""
        self.store, self.broker, self.clock = store, broker, clock
        self.metrics = ProcessMetrics()
        self.lead = lead = LeadershipState()
        self.ledger = ledger = SlotLedger()
        ids = IdFactory(boot if id_slot is None else id_slot, clock.now)
        self.task_types = TaskTypes(schemas, options.checks if options else None, release=release_number(__version__))
        self.known_types = KnownTypes(self.task_types, store=store, clock=clock)

        if chunks is not None:
            self.chunks = chunks
        placing, orders = asyncio.Lock(), QueueOrders(store, clock)
        broker = OrderedBroker(broker, orders)
        self.options = options = options or MasterOptions()
        self.tokens, self.audit = (
            Tokens(store=store, clock=clock, make_secret=make_secret),
            Audit(store=store, clock=clock),
        )
        strategies = StrategyRegistry(options.strategies)
        self.configure = Configure(
            store=store,
            clock=clock,
            defaults={"max_waiting": options.waiting.installation, **options.clusters},
            strategies=strategies.factories,
        )
        self.projects = Projects(store=store, broker=broker, clock=clock, id_factory=ids, placing=placing)
        context = PlacementContext(EvidenceCache(store=store, configure=self.configure), strategies)
        self.submit = Submit(
            store=store,
            broker=broker,
            id_factory=ids,
            clock=clock,
            known_types=self.known_types,
            waiting=AdmissionControl(store=store, clock=clock, limit=options.waiting, configure=self.configure),
            configure=self.configure,
            projects=self.projects,
        )
        self.schedules = Schedules(store=store, broker=broker, clock=clock, id_factory=ids, submit=self.submit)
        self.task_changes = TaskChanges(store=store, broker=broker, clock=clock)
        self.groups = Groups(
            store=store, submit=self.submit, task_changes=self.task_changes, id_factory=ids, clock=clock
        )
        self.assign = AssignByHand(store=store, broker=broker, clock=clock, id_factory=ids, configure=self.configure)
        self.pause = Pause(store=store, broker=broker, clock=clock, placing=placing)
        self.dead_letters = DeadLetters(store=store, broker=broker, clock=clock)
        allocate = ResourceAllocator(store=store, clock=clock, configure=self.configure)
        self.why = Why(store=store, clock=clock, configure=self.configure, context=context, rng=rng, allocate=allocate)
        self.flows = Flows(store=store, broker=broker, clock=clock, id_factory=ids, submit=self.submit)
        self.finish = Finish(store=store, broker=broker, clock=clock, rng=rng)
        self.roster, self._sessions = MasterRoster(), SessionCounter(clock)
        self.sync = Sync(
            store=store,
            broker=broker,
            clock=clock,
            rng=rng,
            finish=self.finish,
            configure=self.configure,
            allocate=allocate,
            roster=self.roster,
        )
        self.open_session = OpenSession(
            store=store,
            broker=broker,
            clock=clock,
            rng=rng,
            finish=self.finish,
            known_types=self.known_types,
            configure=self.configure,
            roster=self.roster,
            sessions=self._sessions,
        )
        self.register = Register(
            store=store,
            id_factory=ids,
            clock=clock,
            make_secret=make_secret,
            known_types=self.known_types,
            simple=options.simple,
        )
        self.heartbeat = Heartbeat(
            store=store, broker=broker, clock=clock, rng=rng, finish=self.finish, simple=options.simple
        )
        self.hosts = Hosts(store=store, broker=broker, clock=clock, configure=self.configure)
        self.node_changes = NodeChanges(store=store, broker=broker, clock=clock, rng=rng)

        self.leader = Leader(store=store, clock=clock, leadership=lead, holder=self.name)
        sight = ClusterView(
            store=store,
            broker=broker,
            clock=clock,
            ledger=ledger,
            rng=rng,
            configure=self.configure,
            orders=orders,
            context=context,
            ageing=Ageing(),
            max_window=window,
        )
        self.dispatcher = Dispatcher(
            store=store,
            broker=broker,
            clock=clock,
            leadership=lead,
            ledger=ledger,
            id_factory=ids,
            view=sight,
            placing=placing,
            context=context,
            tracing=options.tracing,
        )
        self.granter = Granter(
            store=store,
            broker=broker,
            clock=clock,
            leadership=lead,
            rng=rng,
            configure=self.configure,
            evidence=context.evidence,
        )
        self.reaper = Reaper(store=store, broker=broker, clock=clock, leadership=lead, ledger=ledger, rng=rng)
        self.stager = Stager(
            store=store, broker=broker, clock=clock, leadership=lead, failed_nodes=context.failed_nodes
        )
        self.firer = ScheduleFirer(store=store, broker=broker, clock=clock, leadership=lead, submit=self.submit)
        self.relay = Relay(store=store, broker=broker, clock=clock, leadership=lead)
        self.learner = EvidenceAggregator(store=store, clock=clock, leadership=lead, evidence=context.evidence)
        reach = HostReach()
        self.figure_tallier = HostStatsAggregator(store=store, clock=clock, leadership=lead, reach=reach)
        self.node_watcher = NodeWatcher(
            store=store, broker=broker, clock=clock, leadership=lead, configure=self.configure, reach=reach
        )
        self.work_mover = WorkMover(store=store, broker=broker, clock=clock, leadership=lead, configure=self.configure)
        self.reconciler = Reconciler(store=store, broker=broker, clock=clock, leadership=lead, ledger=ledger)
        self.preempter = Preempter(
            store=store, broker=broker, clock=clock, leadership=lead, ledger=ledger, configure=self.configure, rng=rng
        )
        self.scaler = Scaler(
            store=store, broker=broker, clock=clock, leadership=lead, ledger=ledger, configure=self.configure
        )
        self.retention = options.retention
        self._make_upkeep(options, chunks, ids)
        self.log_level_keeper = LogLevelKeeper(clock=clock, configure=self.configure, log_level=options.log_level)
        self.id_keeper = None if id_slot is None else IdSlotKeeper(store=store, clock=clock, ids=ids, boot=boot)
        self.reporter: MasterReporter | None = None
        """Reports that this start is alive; None for a master that is not registered in the store."""

    def _make_upkeep(self, options: MasterOptions, chunks: ChunkStore | None, ids: IdFactory) -> None:
        """Make what counts, samples, alerts and removes: none of it decides about a task."""
        store, clock, lead = self.store, self.clock, self.lead
        self.figures = Figures(store=store, clock=clock, configure=self.configure)
        self.tallier = CounterAggregator(store=store, clock=clock, leadership=lead)
        self.gauge_sampler = GaugeSampler(store=store, clock=clock, leadership=lead)
        self.pruner = Pruner(
            store=store,
            clock=clock,
            leadership=lead,
            retention=options.retention,
            chunks=chunks,
            # A clock that a test or a simulation moves is unrelated to the clock of the database.
            database_clock=store.database_clock if isinstance(clock, SystemClock) else None,
        )
        inputs = AlertInputs(store, self.broker, clock, lead, ids, self.configure, options.alerts)
        self.alert_parts = AlertParts(inputs, self.figures, lambda: self.dispatcher.blocked_requirements)
        self.metrics.notices = self.alert_parts.notifier.attempts

    def report_start(self, identity: MasterIdentity, options: MasterOptions) -> None:
        """Report this start, which the store knows by its number, from now on."""
        self.reporter = MasterReporter(
            store=self.store,
            broker=self.broker,
            clock=self.clock,
            leader=self.leader,
            roster=self.roster,
            identity=identity,
            loops=lambda: self.loops,
            probe=options.probe,
            is_clock_real=isinstance(self.clock, SystemClock),
            sessions=self._sessions,
        )

    @property
    def loops(self) -> list[Loop]:
        return [
            self.leader,
            self.dispatcher,
            self.reaper,
            self.stager,
            self.relay,
            self.tallier,
            self.node_watcher,
            self.reconciler,
            self.preempter,
            self.scaler,
            self.pruner,
            self.learner,
            self.firer,
            self.granter,
            self.figure_tallier,
            self.work_mover,
            *self.alert_parts.loops,
            self.log_level_keeper,
            self.gauge_sampler,
            *([] if self.id_keeper is None else [self.id_keeper]),
            *([] if self.reporter is None else [self.reporter]),
        ]

    async def run(self) -> None:
        """Run all loops until cancelled. A loop that ends is a bug and ends the master with an error."""
        try:
            async with asyncio.TaskGroup() as group:
                for loop in self.loops:
                    group.create_task(loop.run(), name=f"{self.name}:{loop.name}")
        finally:
            await self._resign_leadership()

    async def _resign_leadership(self) -> None:
        """Give up the leadership, so that after a clean stop no other master has to wait until a silent leader is
        replaced."""
        try:
            async with asyncio.timeout(RESIGN_S):
                await self.leader.resign()
                if self.reporter is not None:
                    await self.reporter.record_stop()
        except (Unavailable, TimeoutError) as exc:
            log.warning("not_resigned", master=self.name, error=repr(exc))

    @classmethod
    async def start(
        cls,
        name: str,
        store: Store,
        broker: Broker,
        schemas: Mapping[str, Mapping[str, Any]],
        clock: Clock | None = None,
        rng: Random | None = None,
        *,
        options: MasterOptions | None = None,
        chunks: ChunkStore | None = None,
    ) -> Master:
        clock = clock or SystemClock()
        options, started_at = options or MasterOptions(), clock.now()
        boot = await store.register_master(name, started_at)
        id_slot = await store.take_id_slot(boot, clock.now() + AHEAD_MS)
        master = cls(
            name=name,
            boot=boot,
            store=store,
            broker=broker,
            clock=clock,
            rng=rng or Random(),
            schemas=schemas,
            options=options,
            chunks=chunks,
            id_slot=id_slot,
        )
        master.report_start(MasterIdentity(boot, name, started_at, __version__, options.address), options)
        await master.known_types.seed_types(schemas)
        return master
