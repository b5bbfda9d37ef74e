"""Injects the planned faults into the cluster, reverts them, and records both for the checker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from crawlfleet.model.ids import NodeId
from testkit.chaos.cluster import Cluster, NotThere
from testkit.chaos.network import Direction
from testkit.chaos.plan import FOLLOWER, LEADER, WORKERS, FaultKind, PlannedFault
from testkit.history import (
    Fault,
    FaultInjected,
    MasterKilled,
    MasterStarted,
    NodeKilled,
    NodeLeft,
    NodeStarted,
    Record,
)

SERVING_S = 60.0
"""Time for which a restarted master is waited for; its database may be away meanwhile."""

Say = Callable[[str], None]

_DIRECTIONS = {FaultKind.CUT_BOTH: Direction.BOTH, FaultKind.CUT_UP: Direction.UP, FaultKind.CUT_DOWN: Direction.DOWN}


@dataclass(frozen=True, slots=True)
class LeaderKill:
    """The kill of a leader, by the clock of the event log."""

    at: int
    master: str


class Faults:
    """Carries out a plan of faults."""

    def __init__(self, cluster: Cluster, say: Say) -> None:
        self.records: list[Record] = []
        self.counts: Counter[FaultKind] = Counter()
        self.leader_kills: list[LeaderKill] = []
        self.since = _wall_ms()
        self.began = time.monotonic()
        self._cluster = cluster
        self._say = say
        self._is_over = asyncio.Event()
        self._hurting: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def now(self) -> int:
        return _wall_ms() - self.since

    def begin(self) -> None:
        """Start the time that records count from; all processes are up."""
        self.since, self.began = _wall_ms(), time.monotonic()
        self.records += [MasterStarted(0, name) for name in self._cluster.master_names]
        self.records += [NodeStarted(0, node, self._cluster.slots) for node in self._cluster.nodes.values()]

    async def carry_out(self, plan: Sequence[PlannedFault]) -> None:
        async with asyncio.TaskGroup() as group:
            for fault in plan:
                if await self._is_over_before(fault.at_s):
                    return
                group.create_task(self._inflict(fault), name=str(fault))

    def stop(self) -> None:
        """Inject no more faults."""
        self._is_over.set()

    async def _is_over_before(self, at_s: float) -> bool:
        try:
            async with asyncio.timeout(max(0.0, at_s - (time.monotonic() - self.began))):
                return await self._is_over.wait()
        except TimeoutError:
            return False

    async def _inflict(self, fault: PlannedFault) -> None:
        # A target that is slow to come back on a busy machine is not hit again before: one master always serves.
        async with self._hurting[fault.sort if fault.sort != WORKERS else fault.target]:
            await self._inflict_now(fault)

    async def _inflict_now(self, fault: PlannedFault) -> None:
        target = await self._target(fault.target)
        self._say(str(fault).replace(f": {fault.target}", f": {target}", 1))
        self.counts[fault.kind] += 1
        match fault.kind:
            case FaultKind.MASTER_KILL | FaultKind.MASTER_RESTART:
                await self._down_master(target, fault)
            case FaultKind.WORKER_KILL | FaultKind.WORKER_RESTART:
                await self._down_worker(target, fault)
            case FaultKind.MASTER_FREEZE | FaultKind.WORKER_FREEZE:
                await self._freeze(target, fault)
            case FaultKind.CUT_BOTH | FaultKind.CUT_UP | FaultKind.CUT_DOWN:
                await self._cut(target, fault)
            case _:
                await self._hurt_server(fault)

    async def _target(self, name: str) -> str:
        if name not in (LEADER, FOLLOWER):
            return name
        leader = await self._cluster.leader() or self._cluster.master_names[0]
        if name == LEADER:
            return leader
        return next(master for master in self._cluster.master_names if master != leader)

    async def _down_master(self, master: str, fault: PlannedFault) -> None:
        is_kill = fault.kind is FaultKind.MASTER_KILL
        leads = await self._cluster.leader() == master
        began_at = self.now
        member = self._cluster.members[master]
        await (member.kill() if is_kill else member.stop())
        self.records.append(MasterKilled(began_at, master))
        if is_kill and leads:
            self.leader_kills.append(LeaderKill(self.since + began_at, master))
        await asyncio.sleep(fault.for_s)
        await member.start()
        self.records.append(MasterStarted(self.now, master))
        with suppress(NotThere):
            await self._cluster.until(lambda: self._cluster.serves(master), f"{master} does not serve", SERVING_S)
        self._record_fault(began_at, Fault.MASTER_KILL, master)

    async def _down_worker(self, worker: str, fault: PlannedFault) -> None:
        node, member = self._cluster.nodes[worker], self._cluster.members[worker]
        began_at = self.now
        if fault.kind is FaultKind.WORKER_KILL:
            await member.kill()
            self.records.append(NodeKilled(began_at, node))
        else:
            self.records.append(NodeLeft(began_at, node))
            await member.stop()
        await asyncio.sleep(fault.for_s)
        await member.start()
        self.records.append(NodeStarted(self.now, node, self._cluster.slots))
        self._record_fault(began_at, Fault.NODE_KILL, node)

    async def _freeze(self, name: str, fault: PlannedFault) -> None:
        began_at, member = self.now, self._cluster.members[name]
        member.freeze()
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            member.thaw()
        is_master = fault.kind is FaultKind.MASTER_FREEZE
        target: NodeId | str = name if is_master else self._cluster.nodes[name]
        self._record_fault(began_at, Fault.MASTER_PAUSE if is_master else Fault.NODE_PAUSE, target)

    async def _cut(self, worker: str, fault: PlannedFault) -> None:
        began_at = self.now
        await self._cluster.network.cut(worker, _DIRECTIONS[fault.kind])
        try:
            await asyncio.sleep(fault.for_s)
        finally:
            await self._cluster.network.heal(worker)
        self._record_fault(began_at, Fault.NETWORK_CUT, self._cluster.nodes[worker])

    async def _hurt_server(self, fault: PlannedFault) -> None:
        began_at, redis, postgres = self.now, self._cluster.redis, self._cluster.postgres
        match fault.kind:
            case FaultKind.REDIS_FLUSH:
                await asyncio.to_thread(redis.flush)
            case FaultKind.REDIS_KILL:
                await asyncio.to_thread(redis.kill)
                await asyncio.sleep(fault.for_s)
                await asyncio.to_thread(redis.start)
            case FaultKind.REDIS_FREEZE:
                await asyncio.to_thread(redis.pause)
                await asyncio.sleep(fault.for_s)
                await asyncio.to_thread(redis.resume)
            case FaultKind.POSTGRES_CRASH:
                await asyncio.to_thread(postgres.stop, "immediate")
                await asyncio.sleep(fault.for_s)
                await asyncio.to_thread(postgres.start)
            case FaultKind.POSTGRES_TERMINATE:
                await self._cluster.terminate_backends(fault.share)
        self._record_fault(began_at, Fault.STORE if fault.kind.startswith("postgres") else Fault.BROKER, fault.target)

    def _record_fault(self, began_at: int, kind: Fault, target: NodeId | str) -> None:
        self.records.append(FaultInjected(began_at, kind, target, self.now))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
