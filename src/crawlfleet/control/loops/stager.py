"""Makes tasks ready that waited for their time: `run_at`, retries after their back-off, and parked tasks."""

from __future__ import annotations

from typing import Protocol

from crawlfleet.control.leader.failed_node_memory import FailedNodeMemory
from crawlfleet.control.leader.leadership_state import LeadershipState
from crawlfleet.control.loops.base import LeaderLoop
from crawlfleet.control.support.broker_hints import publish_hints
from crawlfleet.model.instants import Instant
from crawlfleet.ports.broker import Broker
from crawlfleet.ports.clock import Clock
from crawlfleet.ports.event_store import EvidenceStore
from crawlfleet.ports.store import PlacementStore
from crawlfleet.scheduling.tasks import task_state_machine

BATCH = 1_000


class _StageStore(PlacementStore, EvidenceStore, Protocol):
    pass


class Stager(LeaderLoop):
    name = "stager"
    pause_s = 0.5

    def __init__(
        self,
        *,
        store: _StageStore,
        broker: Broker,
        clock: Clock,
        leadership: LeadershipState,
        failed_nodes: FailedNodeMemory,
    ) -> None:
        super().__init__(clock, leadership)
        self._failed_nodes = failed_nodes
        self._store = store
        self._broker = broker

    async def run_term(self, term: int, now: Instant) -> bool:
        """Release one batch; True if there may be more."""
        is_more = await self._unpark(term, now)
        due = await self._store.due_tasks(now, BATCH)
        if not due:
            return is_more
        # Before they are ready: the dispatcher may place them at once.
        self._failed_nodes.remember_failures(await self._store.failed_nodes(due))
        applied = await self._store.change_tasks(due, task_state_machine.release_due(now), now, term)
        await publish_hints(self._broker, applied)
        return is_more or (len(due) == BATCH and bool(applied.after))

    async def _unpark(self, term: int, now: Instant) -> bool:
        """Release tasks parked for a host whose back-off ended early, or for a daily quota that has some left again."""
        parked = [*await self._store.parked_in_vain(now, BATCH), *await self._store.parked_with_room(now, BATCH)]
        if not parked:
            return False
        applied = await self._store.change_tasks(parked, task_state_machine.unpark_task, now, term)
        await publish_hints(self._broker, applied)
        return len(parked) >= BATCH and bool(applied.after)
