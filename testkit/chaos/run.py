"""One chaos run: start the cluster, load it, inject faults, let it recover and drain, judge it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from crawlfleet.store.engine.postgres.engine import PostgresEngine
from testkit.chaos.cluster import Cluster, NotThere
from testkit.chaos.faults import Faults
from testkit.chaos.load import Load, sleep
from testkit.chaos.meetings import meetings
from testkit.chaos.network import Network
from testkit.chaos.plan import PlannedFault
from testkit.chaos.resources import Resources
from testkit.chaos.summary import late_placements, recoveries, summary
from testkit.chaos.verdict import verdict
from testkit.judge import Seen
from testkit.patience import promised
from testkit.violations import Invariant, Limits, Violation

PROGRESS_S = 15.0
WHOLE_S = 120.0
DRAIN_S = 180.0
DUMP = "database.sql"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the cluster."""

    masters: int = 2
    workers: int = 4
    slots: int = 4

    @property
    def master_names(self) -> list[str]:
        return [f"master-{n}" for n in range(self.masters)]

    @property
    def worker_names(self) -> list[str]:
        return [f"worker-{n}" for n in range(self.workers)]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A chaos run: its seed, duration, faults and load."""

    seed: int
    seconds: float
    plan: Sequence[PlannedFault]
    shape: Shape
    rate: float = 20.0
    """Number of tasks submitted per second."""
    batch: int = 0
    """Number of `sleep` tasks of one second that are submitted all at once in place of a steady load; the run is over
    when they are final. 0 for a steady load."""


async def run(scenario: Scenario, network: Network, folder: Path, say: Say) -> list[Violation]:
    shape = scenario.shape
    cluster = Cluster(folder, network, masters=shape.masters, workers=shape.workers, slots=shape.slots)
    # Measured by the other load of the machine, before the cluster itself keeps it busy.
    limits = limits_here()
    try:
        await cluster.start()
        return await _Run(scenario, cluster, say, limits).run()
    finally:
        await cluster.close()


def limits_here(limits: Limits = Limits()) -> Limits:
    """Return the promised bounds, for a machine as busy as this one."""
    return Limits(
        int(promised(limits.recovery_ms)), int(promised(limits.election_ms)), int(promised(limits.resume_grace_ms))
    )


class _Run:
    """The course of one run."""

    def __init__(self, scenario: Scenario, cluster: Cluster, say: Say, limits: Limits) -> None:
        self._scenario = scenario
        self._limits = limits
        self._cluster = cluster
        self._out = say
        self._load = Load(cluster.urls, cluster.token, scenario.seed, cluster.witnesses)
        self._faults = Faults(cluster, self._say)
        self._resources = Resources(cluster)
        self._late: list[Violation] = []

    def _say(self, line: str) -> None:
        self._out(f"[{time.monotonic() - self._faults.began:6.1f} s] {line}")

    async def run(self) -> list[Violation]:
        self._faults.begin()
        self._say(f"{len(self._cluster.members)} processes are up, with {self._cluster.network.name} between them")
        watching = [asyncio.create_task(self._progress()), asyncio.create_task(self._resources.run())]
        try:
            await (self._all_at_once() if self._scenario.batch else self._steadily())
            drained_s = await self._settle()
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
        await self._resources.look_at_the_end()
        self._late += [Violation(Invariant.STAYS_UP, bad) for bad in await self._cluster.leave()]
        return await self._judge(drained_s)

    async def _steadily(self) -> None:
        load = asyncio.create_task(self._load.run(self._scenario.rate))
        try:
            await self._faults.carry_out(self._scenario.plan)
            await asyncio.sleep(max(0.0, self._scenario.seconds - (time.monotonic() - self._faults.began)))
            self._load.end()
            self._say("no more faults, no more work: it drains")
            async with asyncio.timeout(WHOLE_S):
                await load
        except TimeoutError:
            pass  # the verdict reports what was not answered
        finally:
            load.cancel()
            await asyncio.gather(load, return_exceptions=True)

    async def _all_at_once(self) -> None:
        await self._load.submit([sleep(1.0)] * self._scenario.batch, "everything")
        faults = asyncio.create_task(self._faults.carry_out(self._scenario.plan))
        try:
            await self._cluster.until(self._is_drained, "not all work has ended", within_s=self._scenario.seconds)
        except NotThere as exc:
            self._late.append(Violation(Invariant.NONE_LOST, str(exc)))
        took_s = time.monotonic() - self._faults.began
        self._say(f"{self._scenario.batch} tasks ended in {took_s:.1f} s")
        # A fault that has begun is carried out to its end; later ones have nothing to hit.
        self._faults.stop()
        await faults

    async def _settle(self) -> float:
        """Wait until all tasks are final; returns the seconds it took."""
        try:
            await self._cluster.until(self._cluster.is_whole, "not everybody is back", within_s=WHOLE_S)
        except NotThere as exc:
            self._late.append(Violation(Invariant.RECOVERY_BOUNDED, str(exc)))
        try:
            return await self._cluster.until(self._is_drained, "not all work has ended", within_s=DRAIN_S)
        except NotThere:
            return DRAIN_S  # the verdict reports each task that is not final

    async def _is_drained(self) -> bool:
        return await self._cluster.count("SELECT count(*) FROM live") == 0

    async def _progress(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            ended = await self._cluster.count("SELECT count(*) FROM done")
            said = "the database is away" if ended is None else f"{ended} ended"
            self._say(
                f"  {self._load.tasks} tasks submitted, {said}, {await self._cluster.leader() or 'no master'} leads"
            )

    async def _judge(self, drained_s: float) -> list[Violation]:
        cluster, faults = self._cluster, self._faults
        seen = Seen(faults.since, faults.since + faults.now, faults.records, self._load.sent)
        engine = await PostgresEngine.connect(cluster.dsn)
        try:
            violations, events = await verdict(engine, self._load, seen, cluster.folder, self._limits)
        finally:
            await engine.close()
        violations += self._late
        violations += meetings(cluster.witnesses, cluster.nodes, faults.records, faults.since, self._limits)
        violations += self._resources.violations()
        violations += [Violation(Invariant.STAYS_UP, ended) for ended in cluster.ended_by_themselves]
        if self._scenario.batch:
            violations += late_placements(recoveries(faults.leader_kills, events), faults.since, self._limits)
        for line in summary(self._load, faults, events, self._resources, drained_s):
            self._out(line)
        if violations:
            await asyncio.to_thread(cluster.postgres.dump, cluster.dsn, cluster.folder / DUMP)
        return violations
