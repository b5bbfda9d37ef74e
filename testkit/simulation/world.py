"""The simulated installation: masters and nodes as processes on one virtual loop, over one store and one broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import cast

from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.execution.agent.agent import Agent, AgentSettings
from crawlfleet.execution.agent.events import AgentEvent
from crawlfleet.execution.agent.work.lease_guard import MARGIN_S
from crawlfleet.model.event import EventBatch, Kind
from crawlfleet.model.ids import NodeId, TaskId
from crawlfleet.model.node import NodeDescription
from crawlfleet.model.status import TaskStatus
from crawlfleet.ports.store import Store
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.sync import MeasurementBody
from testkit import history as past
from testkit.clock import VirtualClock
from testkit.history import History
from testkit.processes import SimProcess
from testkit.simulation.network import SimTransport, Weather
from testkit.simulation.store import FaultyStore, ObservedEngine
from testkit.simulation.watch import Capacity, Watch
from testkit.simulation.work import SimExecutor
from testkit.virtual_loop import VirtualLoop

TASK_TYPE = "work"
RESOURCES = {"cpu": 2.0, "memory_mb": 1_024.0}
"""Resources of each node: enough for fewer tasks that ask for any than it has slots."""
_PAUSES = {
    "dispatcher": 2.0,
    "reaper": 1.8,
    "relay": 5.0,
    "stager": 3.0,
    "node_watcher": 30.0,
    "tallier": 20.0,
    "reconciler": 10.0,
    "doubt": 5.0,
    "configuration": 10.0,
    "firer": 3.0,
    "preempter": 2.0,
    "scaler": 60.0,
    "learner": 60.0,
    "granter": 60.0,
}
"""Pauses of loops, longer than in production where that changes nothing but the time a seed takes."""
_FINAL_KINDS = {
    Kind.TASK_COMPLETED: TaskStatus.COMPLETED,
    Kind.TASK_FAILED: TaskStatus.FAILED,
    Kind.TASK_TIMEOUT: TaskStatus.TIMEOUT,
    Kind.TASK_CANCELLED: TaskStatus.CANCELLED,
}


class World:
    """The whole simulated installation, with its history."""

    def __init__(self, loop: VirtualLoop, folder: Path, template: Path, *, masters: int, nodes: int) -> None:
        self.loop = loop
        self.folder = folder
        self.history = History(lambda: loop.now_ms)
        self.weather = Weather()
        self.engine = ObservedEngine(template, self._observe)
        self.store = SqlStore(self.engine, loop.time)
        self.broker = MemoryBroker(window=64, total=512, rng=loop.rng("broker"))
        self.rounds: dict[TaskId, int] = {}
        self.ended: dict[TaskId, TaskStatus] = {}
        self.parked: Counter[tuple[TaskId, int]] = Counter()
        """Number of times that each task was parked in each of its rounds."""
        self.leader: str | None = None
        self.ignored: list[str] = []
        self.lease_margin_s = MARGIN_S
        self.watch = Watch(self.engine.look, lambda: loop.now_ms)
        self.on_commit: list[Callable[[Sequence[EventBatch]], None]] = []
        """Further callbacks for each transaction, called after the world has recorded it."""
        self.masters = [SimMaster(self, number) for number in range(masters)]
        self.nodes = [SimNode(self, f"n{number}") for number in range(nodes)]

    def note_ignored(self, exc: Exception) -> None:
        self.ignored.append(repr(exc))

    def living_masters(self) -> list[SimMaster]:
        return [master for master in self.masters if master.is_up]

    def _observe(self, batches: Sequence[EventBatch]) -> None:
        """Record what a transaction did, at the instant of its commit."""
        history, now = self.history, self.history.now
        for batch in batches:
            each, shared = batch.each, batch.shared
            if batch.kind is Kind.TASK_ASSIGNED:
                for task, execution, node in zip(each["task"], each["execution"], each["node"], strict=True):
                    history.add(past.Assigned(now, task, self.rounds.get(task, 1), execution, node, 0))
            elif batch.kind in _FINAL_KINDS:
                runs = each.get("execution") or [0] * len(each["task"])
                for task, execution in zip(each["task"], runs, strict=True):
                    self.ended[task] = _FINAL_KINDS[batch.kind]
                    history.add(
                        past.OutcomeAccepted(now, task, self.rounds.get(task, 1), execution, _FINAL_KINDS[batch.kind])
                    )
            elif batch.kind is Kind.TASK_REOPENED:
                for task, round_ in zip(each["task"], each["round"], strict=True):
                    self.rounds[task] = round_
                    self.ended.pop(task, None)
            elif batch.kind is Kind.LEADER_ELECTED:
                self.leader = shared["master"]
                history.add(past.LeaderElected(now, shared["term"], shared["master"]))
        self.watch.committed(batches)
        for callback in self.on_commit:
            callback(batches)


class SimMaster:
    """A master that may be killed and started again."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.clock = VirtualClock(world.loop)
        self.process: SimProcess | None = None
        self.master: Master | None = None
        self.faulty: FaultyStore | None = None
        self._rng = world.loop.rng(f"master {number}")
        self._starts = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive and self.master is not None

    @property
    def leads(self) -> bool:
        return self.is_up and self.master is not None and self.master.name == self.world.leader

    def start(self) -> None:
        world = self.world
        self._starts += 1
        self.process = SimProcess(world.loop, f"m{self.number}.{self._starts}")
        self.master = None
        self.faulty = FaultyStore(world.store, Random(self._rng.random()), self._crashed)
        self.process.spawn(self._main(), name="main")

    async def _main(self) -> None:
        store = cast("Store", self.faulty)
        name = f"m{self.number}"
        boot = await store.register_master(name, self.clock.now())
        master = Master(
            name=name,
            boot=boot,
            store=store,
            broker=self.world.broker,
            clock=self.clock,
            rng=Random(self._rng.random()),
            schemas={TASK_TYPE: {}},
            window=64,
            make_secret=lambda: f"{self._rng.getrandbits(256):064x}",
        )
        for loop in master.loops:
            loop.pause_s = _PAUSES.get(loop.name, loop.pause_s)  # type: ignore[misc]
        master.configure.fresh_s = _PAUSES["configuration"]
        master.reconciler.doubt_pause_s = _PAUSES["doubt"]
        self.master = master
        self.world.history.add(past.MasterStarted(self.world.history.now, master.name))
        await master.run()

    def kill(self) -> None:
        assert self.process is not None
        self._note_death()
        self.process.kill()

    def _crashed(self) -> None:
        self._note_death()

    def _note_death(self) -> None:
        if self.master is not None:
            now = self.world.history.now
            self.world.history.add(past.FaultInjected(now, past.Fault.MASTER_KILL, self.master.name, now))
            self.world.history.add(past.MasterKilled(now, self.master.name))
        self.master = None


class SimNode:
    """A node's machine: its agent may die and come back; its disk (the outbox, its id and secret) stays."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.slots = world.loop.rng(f"slots of {name}").randint(3, 8)
        self.id: NodeId = 0
        self.secret = ""
        self.process: SimProcess | None = None
        self.agent: Agent | None = None
        self.running: set[int] = set()
        self._rng = world.loop.rng(f"node {name}")
        self._starts = 0

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        self._starts += 1
        self.running = set()
        self.process = SimProcess(self.world.loop, f"{self.name}.{self._starts}")
        self.process.spawn(self._main(), name="main")

    async def _main(self) -> None:
        world = self.world
        while not self.id:
            await self._join()
        rng = Random(self._rng.random())
        transports = [SimTransport(self, master, world.weather, Random(rng.random())) for master in world.masters]
        settings = AgentSettings(
            node=self.id,
            secret=self.secret,
            outbox_directory=world.folder / self.name,
            slots=self.slots,
            task_types=[TASK_TYPE],
            is_outbox_synced=False,
            lease_margin_s=world.lease_margin_s,
        )
        self.agent = Agent(
            settings,
            transports,
            SimExecutor(world.parked),
            clock=VirtualClock(world.loop),
            rng=rng,
            measure=MeasurementBody,
            on_event=self._observe,
        )
        world.history.add(past.NodeStarted(world.history.now, self.id, self.slots))
        await self.agent.run()
        world.history.add(past.NodeLeft(world.history.now, self.id))
        if self.process is not None:
            self.process.kill()

    async def _join(self) -> None:
        resources = tuple(sorted(RESOURCES.items()))
        description = NodeDescription(self.name, slots=self.slots, task_types=(TASK_TYPE,), resources=resources)
        master = self._rng.choice(self.world.masters)
        if master.is_up and master.master is not None and master.process is not None:
            try:
                async with asyncio.timeout(5):
                    joined = await master.process.call(
                        master.master.register.register_node, description, f"join key of {self.name}"
                    )
                self.id, self.secret = joined.node, joined.secret
                self.world.watch.capacity[self.id] = Capacity(self.slots, RESOURCES)
                return
            except Exception as exc:
                self.world.note_ignored(exc)
        await asyncio.sleep(1)

    def kill(self) -> None:
        assert self.process is not None
        history = self.world.history
        self.process.kill()
        self.running = set()
        if self.id:
            history.add(past.FaultInjected(history.now, past.Fault.NODE_KILL, self.id, history.now))
            history.add(past.NodeKilled(history.now, self.id))

    def _observe(self, name: str, data: dict[str, object]) -> None:
        history = self.world.history
        if name == AgentEvent.EXECUTION_STARTED:
            task, execution = cast("int", data["task"]), cast("int", data["execution"])
            self.running.add(execution)
            history.add(past.Started(history.now, task, execution, self.id))
        elif name == AgentEvent.EXECUTION_ENDED and data["was_started"]:
            task, execution = cast("int", data["task"]), cast("int", data["execution"])
            self.running.discard(execution)
            history.add(past.Ended(history.now, task, execution, self.id))
        elif name == AgentEvent.DRAIN_BEGAN:
            history.add(past.NodeLeft(history.now, self.id))
        elif name == AgentEvent.DRAIN_ENDED:
            history.add(past.NodeStarted(history.now, self.id, self.slots))
