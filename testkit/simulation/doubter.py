"""Asks why tasks wait, at random instants, and checks every answer."""

from __future__ import annotations

import asyncio
from random import Random

from crawlfleet.bootstrap.master import Master
from crawlfleet.model.status import LIVE_STATUSES
from crawlfleet.ports.task_store import TaskFilter
from testkit.clock import VirtualClock
from testkit.simulation.world import World
from testkit.true_reasons import untrue
from testkit.violations import Invariant, Violation

EVERY_S = 20.0
QUESTIONS = 3


class Doubter:
    """Checks the explanations of a master that does not run."""

    def __init__(self, world: World, until_s: float) -> None:
        self._world = world
        self._until_s = until_s
        self._rng = world.loop.rng("doubter")
        # A master that never runs: it reads the store as any master would, without the injected faults.
        self._master = Master(
            name="doubter",
            boot=0,
            store=world.store,
            broker=world.broker,
            clock=VirtualClock(world.loop),
            rng=Random(0),
            schemas={},
        )
        self.question_count = 0
        self.violations: list[Violation] = []

    async def run(self) -> None:
        while self._world.loop.time() < self._until_s:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * EVERY_S)
            live = await self._world.store.list_tasks(TaskFilter(statuses=LIVE_STATUSES), 1_000)
            for record in self._rng.sample(live, min(QUESTIONS, len(live))):
                self.question_count += 1
                complaint = await untrue(self._master, record.id)
                if complaint is not None:
                    self.violations.append(Violation(Invariant.ANSWERS_TRUE, complaint, self._world.history.now))
