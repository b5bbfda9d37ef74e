"""Faults drawn from the seed: what breaks, its target, when and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from testkit import history as past
from testkit.history import Fault
from testkit.simulation.world import SimMaster, SimNode, World

LEASE_S = 9.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault that is planned."""

    at: float
    kind: str


class Faults:
    """Injects the faults of one seed."""

    def __init__(self, world: World, count: int, busy_s: float) -> None:
        self._world = world
        self._rng = rng = world.loop.rng("faults")
        self._kinds: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "kill node": self._kill_node,
            "restart node fast": self._restart_node,
            "pause node": self._pause_node,
            "kill leader": self._kill_leader,
            "kill master": self._kill_master,
            "pause leader": self._pause_leader,
            "crash between steps": self._crash_between_steps,
            "cut node off": self._cut_node_off,
            "cut one way": self._cut_one_way,
            "bad network": self._bad_network,
            "store away": self._store_away,
            "commit then timeout": self._commit_then_timeout,
            "broker emptied": self._broker_emptied,
            "clock jump": self._clock_jump,
        }
        names = sorted(self._kinds)
        # Half of the runs have their faults far apart, so that each is alone and recovery can be timed.
        spread = rng.random() < 0.5
        times = [busy_s * (n + rng.random() * 0.3) / count for n in range(count)]
        if not spread:
            times = sorted(rng.uniform(0, busy_s) for _ in range(count))
        self.plan = [Planned(5 + offset, rng.choice(names)) for offset in times]

    async def run(self) -> None:
        started = self._world.loop.time()
        async with asyncio.TaskGroup() as group:
            for planned in self.plan:
                await asyncio.sleep(max(0.0, started + planned.at - self._world.loop.time()))
                group.create_task(self._kinds[planned.kind]())

    def _note(self, kind: Fault, target: int | str, lasts_s: float) -> None:
        now = self._world.history.now
        self._world.history.add(past.FaultInjected(now, kind, target, now + round(lasts_s * 1000)))

    def _a_node(self) -> SimNode | None:
        up = [node for node in self._world.nodes if node.is_up and node.id]
        return self._rng.choice(up) if up else None

    def _a_master(self, *, leads: bool | None = None) -> SimMaster | None:
        up = [master for master in self._world.living_masters() if leads is None or master.leads is leads]
        return self._rng.choice(up) if up else None

    async def _kill_node(self) -> None:
        if node := self._a_node():
            node.kill()
            await asyncio.sleep(self._rng.uniform(12, 40))
            node.start()

    async def _restart_node(self) -> None:
        if node := self._a_node():
            node.kill()
            await asyncio.sleep(self._rng.uniform(0.05, 5))
            node.start()

    async def _pause_node(self) -> None:
        if (node := self._a_node()) and node.process is not None:
            lasts_s = self._rng.choice((2.0, 6.0, 8.0, 12.0, 30.0)) * self._rng.uniform(0.8, 1.2)
            process = node.process
            self._note(Fault.NODE_PAUSE, node.id, lasts_s)
            process.pause()
            await asyncio.sleep(lasts_s)
            process.resume()

    async def _kill_leader(self) -> None:
        await self._kill(self._a_master(leads=True))

    async def _kill_master(self) -> None:
        await self._kill(self._a_master())

    async def _kill(self, master: SimMaster | None) -> None:
        if master is not None:
            master.kill()
            await self._bring_back(master)

    async def _bring_back(self, master: SimMaster) -> None:
        await asyncio.sleep(self._rng.uniform(1, 20))
        if not master.is_up:
            master.start()

    async def _pause_leader(self) -> None:
        if (master := self._a_master(leads=True)) and master.process is not None:
            lasts_s = self._rng.uniform(1, 20)
            process = master.process
            self._note(Fault.MASTER_PAUSE, process.name, lasts_s)
            process.pause()
            await asyncio.sleep(lasts_s)
            process.resume()

    async def _crash_between_steps(self) -> None:
        master = self._a_master(leads=self._rng.random() < 0.7)
        if master is not None and master.faulty is not None:
            master.faulty.faults.crash_in = self._rng.randint(1, 60)
            master.faulty.faults.crashes_after = self._rng.random() < 0.5
            for _ in range(60):
                await asyncio.sleep(0.5)
                if not master.is_up:
                    await self._bring_back(master)
                    return

    async def _cut_node_off(self) -> None:
        if node := self._a_node():
            lasts_s = self._rng.choice((3.0, 6.0, LEASE_S + 1, 25.0)) * self._rng.uniform(0.8, 1.2)
            await self._cut(node, lasts_s, up=True, down=True)

    async def _cut_one_way(self) -> None:
        if node := self._a_node():
            is_up = self._rng.random() < 0.5
            await self._cut(node, self._rng.uniform(3, 25), up=is_up, down=not is_up)

    async def _cut(self, node: SimNode, lasts_s: float, *, up: bool, down: bool) -> None:
        links = {(node.name, master.number) for master in self._world.masters}
        self._note(Fault.NETWORK_CUT, node.id, lasts_s)
        weather = self._world.weather
        cuts = [links_cut for links_cut, is_cut in ((weather.cut_up, up), (weather.cut_down, down)) if is_cut]
        for cut in cuts:
            cut.update(links)
        await asyncio.sleep(lasts_s)
        for cut in cuts:
            cut.difference_update(links)

    async def _bad_network(self) -> None:
        lasts_s = self._rng.uniform(5, 30)
        weather = self._world.weather
        self._note(Fault.NETWORK_DELAY, "everybody", lasts_s)
        weather.lost += 0.1
        weather.doubled += 0.2
        weather.slow_s += 0.2
        await asyncio.sleep(lasts_s)
        weather.lost -= 0.1
        weather.doubled -= 0.2
        weather.slow_s -= 0.2

    async def _store_away(self) -> None:
        lasts_s = self._rng.uniform(1, 8)
        hit = self._world.living_masters()
        self._note(Fault.STORE, "everybody", lasts_s)
        share = self._rng.choice((0.1, 0.5, 1.0))
        for master in hit:
            if master.faulty is not None:
                master.faulty.faults.unavailable = share
        await asyncio.sleep(lasts_s)
        for master in hit:
            if master.faulty is not None:
                master.faulty.faults.unavailable = 0.0

    async def _commit_then_timeout(self) -> None:
        master = self._a_master()
        if master is not None and master.faulty is not None:
            lasts_s = self._rng.uniform(5, 30)
            self._note(Fault.STORE, master.number, lasts_s)
            faults = master.faulty.faults
            faults.unanswered = self._rng.choice((0.05, 0.3))
            await asyncio.sleep(lasts_s)
            faults.unanswered = 0.0

    async def _broker_emptied(self) -> None:
        self._note(Fault.BROKER, "broker", 2.0)
        await self._world.broker.forget_all()

    async def _clock_jump(self) -> None:
        master = self._rng.choice(self._world.masters)
        jump_ms = self._rng.choice((-3_600_000, 3_600_000, -5_000, 5_000))
        lasts_s = self._rng.uniform(5, 60)
        self._note(Fault.CLOCK, master.number, lasts_s)
        master.clock.jump(jump_ms)
        await asyncio.sleep(lasts_s)
        master.clock.jump(-jump_ms)
