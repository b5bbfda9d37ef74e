"""A master without its process: services and loops over a real store, with nodes that only exist in the store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import repeat
from random import Random

from bench.raw import PAYLOAD
from crawlfleet.bootstrap.master import Master
from crawlfleet.broker.memory import MemoryBroker
from crawlfleet.model.execution import End, Outcome
from crawlfleet.model.instants import Instant
from crawlfleet.model.node import NodeDescription
from crawlfleet.ports.clock import SystemClock
from crawlfleet.ports.node_store import Renewal
from crawlfleet.ports.task_store import Applied, Assignment, SubmissionAnswer
from crawlfleet.scheduling.tasks import task_state_machine
from crawlfleet.store.engine.sqlalchemy_query import QueryEngine
from crawlfleet.store.store import SqlStore
from crawlfleet.wire.tasks import TaskBody, task_body

TASK_TYPE = "echo"


class WatchedStore(SqlStore):
    """Remembers what was assigned, and when its commit came back: the bench plays the nodes."""

    def __init__(self, engine: QueryEngine) -> None:
        super().__init__(engine)
        self.assigned: list[Assignment] = []
        self.assigned_at: dict[int, float] = {}
        self.watched: set[int] = set()

    async def assign_tasks(
        self,
        batch: Sequence[Assignment],
        term: int | None,
        now: Instant,
        fences: Mapping[str, int] | None = None,
        pulls: Mapping[int, int] | None = None,
    ) -> Applied:
        applied = await super().assign_tasks(batch, term, now, fences, pulls)
        at = time.perf_counter()
        self.assigned += [item for item in batch if item.task not in applied.refused] if applied.refused else batch
        for task in self.watched.intersection(applied.after) if self.watched else ():
            self.assigned_at[task] = at
        return applied


class Cluster:
    def __init__(self, store: WatchedStore, master: Master) -> None:
        self.store = store
        self.master = master
        self.clock = SystemClock()
        self._sessions: dict[int, int] = {}
        self._number = 1

    @classmethod
    async def start(cls, engine: QueryEngine, *, nodes: int = 100, slots: int = 10) -> Cluster:
        store = WatchedStore(engine)
        master = await Master.start("bench", store, MemoryBroker(), {TASK_TYPE: {}})
        cluster = cls(store, master)
        for number in range(nodes):
            await cluster._join(number, slots)
        while master.lead.term is None:
            await master.leader.run_once(cluster.clock.now())
        return cluster

    async def _join(self, number: int, slots: int) -> None:
        description = NodeDescription(f"n{number}", slots=slots, task_types=(TASK_TYPE,))
        joined = await self.master.register.register_node(description, f"bench-{number}")
        now = self.clock.now()
        decide = task_state_machine.lose_execution("bench", now, Random(0))
        session, _ = await self.store.open_session(joined.node, slots, [TASK_TYPE], decide, now)
        self._sessions[joined.node] = session
        await self.store.renew_leases([Renewal(joined.node, session, 1, None)], now)

    async def renew(self) -> None:
        """The leases of all nodes, as their syncs would."""
        self._number += 1
        renewals = [Renewal(node, session, self._number, None) for node, session in self._sessions.items()]
        await self.store.renew_leases(renewals, self.clock.now())

    async def submit(self, bodies: Sequence[TaskBody]) -> SubmissionAnswer:
        return await self.master.submit.submit_tasks(bodies)

    async def finish_assigned(self) -> int:
        """Every execution that was assigned is completed, as the syncs of all nodes together would."""
        batch, self.store.assigned = self.store.assigned, []
        return await self.finish(batch)

    async def finish(self, batch: Sequence[Assignment]) -> int:
        if not batch:
            return 0
        tasks, _, executions, nodes, _ = zip(*batch, strict=True)
        outcomes = list(map(Outcome, nodes, tasks, executions, *map(repeat, (End.COMPLETED, None, b'{"ok":1}'))))
        await self.master.finish.finish_outcomes(outcomes)
        return len(batch)

    async def cycle(self, bodies: Sequence[TaskBody]) -> None:
        """Submit, place over all nodes, finish."""
        await self.submit(bodies)
        left = len(bodies)
        while left > 0:
            await self.master.dispatcher.run_once(self.clock.now())
            left -= await self.finish_assigned()

    async def housekeep(self) -> None:
        """What the leader's other loops do beside it: numbering events, folding counters."""
        now = self.clock.now()
        while await self.master.relay.run_once(now):
            pass
        await self.master.tallier.run_once(now)


def bodies(count: int, **fields: object) -> list[TaskBody]:
    body = task_body({"task_type": TASK_TYPE, "project_id": "bench", **fields})
    assert isinstance(body, TaskBody)
    parameters = type(body.parameters)(PAYLOAD)
    return [TaskBody(task_type=TASK_TYPE, project_id="bench", parameters=parameters, priority=body.priority)] * count
