"""Ends sessions whose lease ran out, and recalls executions past their hard deadline.

Both are judged by this leader's own monotonic clock. The wall clock only helps to find candidates for a deadline, so
that a clock that jumps ends no work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.leader.slot_ledger import SlotLedger
from crawlfleet.control.loops.base import LeaderLoop, log
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model.ids import TaskId, node_text
from crawlfleet.model.instants import Instant
from crawlfleet.model.status import NodeStatus
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.node_store import LeaseRow
from crawlfleet.ports.queue_store import HeldTask
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.nodes.lease import LeaseTracker
from crawlfleet.scheduling.tasks import task_state_machine

OVERDUE_BATCH = 500
OVERDUE_BATCHES = 10
"""Batches of candidates that one pass looks at; the next pass goes on behind them."""


@dataclass(frozen=True, slots=True)
class ReapReport:
    sessions: int
    overdue: int

    def __bool__(self) -> bool:
        return False


class Reaper(LeaderLoop):
    name = "reaper"
    pause_s = 1.0

    def __init__(
        self,
        *,
        store: PlacementStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        ledger: SlotLedger,
        rng: Random,
    ) -> None:
        super().__init__(clock, leadership)
        self._store = store
        self._broker = broker
        self._ledger = ledger
        self._rng = rng
        self._term: int | None = None
        self._leases: LeaseTracker[LeaseRow] = LeaseTracker()
        self._overdue_after: HeldTask | None = None

    async def run_term(self, term: int, now: Instant) -> ReapReport:
        if term != self._term:
            # A new leader has watched no node yet: every node gets a fresh lease before it is judged.
            self._leases, self._term = LeaseTracker(), term
        self._leases.observe_leases(await self._store.open_leases(), self._clock.monotonic())
        sessions = 0
        for lease in self._leases.expired_leases(self._clock.monotonic()):
            sessions += await self._end_session(lease, term, now)
        return ReapReport(sessions, await self._recall_overdue(term, now))

    async def _end_session(self, lease: LeaseRow, term: int, now: Instant) -> bool:
        decide = task_state_machine.lose_execution(f"{node_text(lease.node)} lost its lease", now, self._rng)
        applied = await self._store.end_session(
            lease.node, lease.session, NodeStatus.UNRESPONSIVE, decide, now, renewals=lease.renewals, term=term
        )
        self._leases.forget_node(lease.node)
        if applied is None:
            return False
        log.warning("lease_ended", node=node_text(lease.node), session=lease.session, tasks=len(applied.after))
        await publish_hints(self._broker, applied)
        return True

    async def _recall_overdue(self, term: int, now: Instant) -> int:
        if not self._ledger:
            return 0
        recalled = 0
        for _ in range(OVERDUE_BATCHES):
            candidates = await self._store.overdue_tasks(now, OVERDUE_BATCH, self._overdue_after)
            # Candidates that are not due by the monotonic clock stay candidates (after a jump of the wall clock, all
            # that run): those behind them have their turn before the first ones are looked at again.
            self._overdue_after = candidates[-1] if len(candidates) == OVERDUE_BATCH else None
            recalled += await self._recall([held.task for held in candidates], term, now)
            if self._overdue_after is None:
                break
        return recalled

    async def _recall(self, candidates: Sequence[TaskId], term: int, now: Instant) -> int:
        now_mono = self._clock.monotonic()
        tasks = [
            row.id
            for row in (await self._store.live_tasks(candidates) if candidates else {}).values()
            if self._ledger.held_for_s(row.node, row.execution, now_mono)
            >= row.timeout_s + task_state_machine.DEADLINE_GRACE_S
        ]
        if not tasks:
            return 0
        applied = await self._store.change_tasks(tasks, task_state_machine.recall_overdue(now), now, term)
        await publish_hints(self._broker, applied)
        return len(applied.after)
