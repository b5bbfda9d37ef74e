"""Projects and queues of the simulation: shares and quotas that change during the run, and a LIFO queue."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

from crawlfleet.model.project import OnFull, Project, Quotas
from testkit.simulation.people import LIMITED, STACK, People
from testkit.simulation.world import SimMaster, World

CHANGES = 3
RESERVED = {"cpu": 0.5, "memory_mb": 128.0}
"""Resources of every task of the limited project: less than any of its quotas, so that none waits for ever."""


class SimProjects:
    """Configures projects and the LIFO queue, and changes them during the run."""

    def __init__(self, world: World, people: People, busy_s: float) -> None:
        self._people = people
        self._rng = world.loop.rng("projects")
        self._busy_s = busy_s
        self._has_quotas = self._rng.random() < 0.6
        self._has_stack = self._rng.random() < 0.5

    async def make(self) -> None:
        rng = self._rng
        if self._has_stack:
            await self._turn(is_lifo=True)
            self._people.has_stack = True
        if self._has_quotas:
            # A leader on another master may learn of the first configured project a second late.
            await self._describe(Project("b", weight=rng.choice((0.5, 2.0, 5.0))))
            await asyncio.sleep(2)
            await self._describe(Project(LIMITED, rng.choice((0.5, 1.0, 4.0)), _quotas(rng), rng.choice(list(OnFull))))
            self._people.has_quotas = True
            self._people.reserved = RESERVED

    async def change(self) -> None:
        """Raise quotas and lower them below what runs; change the LIFO queue to FIFO and back."""
        rng, pause_s = self._rng, self._busy_s / CHANGES
        for _ in range(CHANGES):
            await asyncio.sleep(pause_s * rng.uniform(0.5, 1.0))
            if self._has_quotas:
                await self._describe(Project(LIMITED, rng.choice((0.5, 1.0, 4.0)), _quotas(rng), OnFull.WAIT))
            if self._has_stack and rng.random() < 0.2:
                await self._turn(is_lifo=False)
                await asyncio.sleep(rng.uniform(1, 20))
                await self._turn(is_lifo=True)

    async def _describe(self, wanted: Project) -> None:
        async def send(master: SimMaster) -> Project:
            assert master.master is not None
            return await master.master.projects.change_project(
                wanted.name,
                lambda have: replace(have, weight=wanted.weight, quotas=wanted.quotas, on_full=wanted.on_full),
            )

        await self._people.ask(send, self._rng)

    async def _turn(self, *, is_lifo: bool) -> None:
        async def send(master: SimMaster) -> bool:
            assert master.master is not None
            return await master.master.pause.set_order(STACK, is_lifo=is_lifo)

        await self._people.ask(send, self._rng)


def _quotas(rng: Random) -> Quotas:
    """Draw quotas, always with a limit on waiting tasks: other masters learn a second late which projects have one."""
    return Quotas(
        waiting=rng.randint(20, 40),
        running=rng.choice((None, 2, 4, 6)),
        cpu=rng.choice((None, 1.0, 2.0)),
        memory_mb=rng.choice((None, 256.0, 512.0)),
    )
