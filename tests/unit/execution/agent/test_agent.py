"""The agent against a small model of the masters, over a network that loses, delays, doubles and reorders.

The model keeps what a store would: tasks, the session, the execution each task is held under. After each seed's storm
the weather clears, and everything must come to an end. A seed that fails names itself.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from crawlfleet.errors import Unavailable
from crawlfleet.execution.agent.agent import Agent, AgentSettings, Departure
from crawlfleet.model.execution import End
from crawlfleet.wire.sync import AssignmentBody, MeasurementBody, OpenDown, OpenUp, OutcomeBody, SyncDown, SyncUp
from tests.unit.execution.agent.agent_kit import LoopClock, monotonic, stand_still, virtual
from tests.unit.execution.agent.agent_model import TASKS, Model

STORM_S = 60.0
T = TypeVar("T")


@dataclass
class Network:
    """One master as the node reaches it."""

    model: Model
    rng: random.Random
    is_stormy: bool = True
    is_cut: bool = False

    async def open(self, up: OpenUp) -> OpenDown:
        return await self._carry(lambda: self.model.open(up))

    async def sync(self, up: SyncUp) -> SyncDown:
        return await self._carry(lambda: self.model.sync(up))

    async def _carry(self, call: Callable[[], Coroutine[None, None, T]]) -> T:
        await self._way()
        if self.is_stormy and self.rng.random() < 0.05:
            await call()
        answer = await call()
        await self._way()
        return answer

    async def _way(self) -> None:
        if not self.is_stormy:
            await asyncio.sleep(0.002)
            return
        await asyncio.sleep(self.rng.choice([0.0, 0.001, 0.01, 0.2, 0.6]) * self.rng.random())
        if self.is_cut or self.rng.random() < 0.04:
            if self.rng.random() < 0.5:
                raise Unavailable("cut")
            await asyncio.Event().wait()


@dataclass
class Executor:
    rng: random.Random
    runs: Counter[int] = field(default_factory=Counter)
    completed: set[int] = field(default_factory=set)
    alive: set[int] = field(default_factory=set)
    is_calm: bool = False

    async def run(self, assignment: AssignmentBody) -> OutcomeBody:
        execution = assignment.execution
        self.runs[execution] += 1
        self.alive.add(execution)
        try:
            await asyncio.sleep(self.rng.choice([0.0, 0.05, 0.5, 4.0, 30.0 if not self.is_calm else 1.0]))
            if self.rng.random() < 0.1 and not self.is_calm:
                raise RuntimeError("bad luck")
            self.completed.add(execution)
            return OutcomeBody(assignment.task, execution, End.COMPLETED)
        except asyncio.CancelledError:
            await asyncio.sleep(self.rng.choice([0.0, 0.0, 0.5, 1.5]))
            raise
        finally:
            self.alive.discard(execution)


class Storm:
    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = random.Random(seed)
        self.directory = directory
        self.model = Model()
        self.networks = [Network(self.model, self.rng) for _ in range(2)]
        self.executor = Executor(self.rng)
        self.events: list[tuple[float, str, dict[str, object]]] = []
        self.paused_at = -100.0
        self.start()

    def start(self) -> None:
        settings = AgentSettings(
            7, "secret", self.directory, 6, ["any"], prefetch=self.rng.choice([0, 2]), is_outbox_synced=False
        )
        self.agent = Agent(
            settings,
            self.networks,
            self.executor,
            clock=LoopClock(),
            rng=self.rng,
            measure=MeasurementBody,
            on_event=lambda name, data: self.events.append((monotonic(), name, data)),
        )
        self.running: asyncio.Task[Departure] = asyncio.get_running_loop().create_task(self.agent.run())

    async def blow(self) -> None:
        ends_at = monotonic() + STORM_S
        while monotonic() < ends_at:
            await asyncio.sleep(self.rng.random())
            self.watch()
            match self.rng.randrange(60):
                case 0:
                    await self.kill()
                    await asyncio.sleep(self.rng.choice([0.0, 3.0, 12.0]))
                    self.watch()
                    self.start()
                case 1:
                    self.paused_at = monotonic()
                    stand_still(self.rng.choice([1.0, 5.0, 8.0, 20.0]))
                case 2 | 3:
                    network = self.rng.choice(self.networks)
                    network.is_cut = not network.is_cut
                case 4:
                    is_cut = not self.networks[0].is_cut
                    for network in self.networks:
                        network.is_cut = is_cut
                case 5 | 6 | 7:
                    self.model.recall_one(self.rng)
                case 8:
                    self.model.is_draining = not self.model.is_draining
                case _:
                    pass

    def watch(self) -> None:
        """The reaper, and what must hold at the moment it reaps."""
        before = len(self.model.reaped)
        self.model.reap()
        if len(self.model.reaped) > before and monotonic() - self.paused_at > 40:
            assert not self.model.reaped[-1] & self.executor.alive, "a lease ended while its work ran"

    async def kill(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])
        assert self.running.cancelled()

    async def calm(self) -> None:
        for network in self.networks:
            network.is_stormy = network.is_cut = False
        self.model.is_draining = False
        self.executor.is_calm = True
        for _ in range(600):
            await asyncio.sleep(0.25)
            self.watch()
            if len(self.model.done) == TASKS:
                break
        self.agent.request_leave(5)
        assert await self.running is Departure.LEFT

    def judge(self) -> None:
        assert len(self.model.done) == TASKS
        assert not self.model.held
        assert self.model.goodbyes >= 1
        assert not self.executor.alive
        assert max(self.executor.runs.values()) == 1, "an execution ran twice"
        for execution, end in self.model.done.values():
            assert end is End.STOPPED or execution in self.executor.completed
        started = Counter(data["execution"] for _, name, data in self.events if name == "execution_started")
        assert started == self.executor.runs
        ended: dict[object, list[object]] = {}
        for _, name, data in self.events:
            if name == "execution_ended":
                ended.setdefault(data["execution"], []).append(data["end"])
        for said in ended.values():
            assert len([end for end in said if end is not End.STOPPED]) <= 1, ended


def gone_through(seed: int, directory: Path) -> list[tuple[float, str, dict[str, object]]]:
    storms: list[Storm] = []

    @virtual
    async def run() -> None:
        storms.append(Storm(seed, directory))
        await storms[0].blow()
        await storms[0].calm()
        storms[0].judge()

    run()
    return storms[0].events


@pytest.mark.parametrize("seed", range(25))
def test_every_task_ends_once_whatever_the_weather(seed: int, tmp_path: Path) -> None:
    gone_through(seed, tmp_path)


def test_a_seed_replays_exactly(tmp_path: Path) -> None:
    first, second = (gone_through(5, tmp_path / name) for name in ("first", "second"))
    assert first == second
